package document

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// providerKeys are the keys of a file of Options.CloudProvider.
func providerKeys() []string { return []string{"cloud_provider", "releases", "variables", "env"} }

// addProvider adds the cloud provider's file to a manifest without cloud_provider: that
// section, releases and variables with other names than the manifest's, and settings of
// the agent for each instance group.
func (e *evaluation) addProvider(ctx context.Context) error {
	path := e.opts.CloudProvider
	if path == "" || e.problems.failed() || e.root == nil || e.root.kind != mapKind ||
		e.root.find("cloud_provider") != nil || e.root.find("instance_groups") == nil {
		return nil
	}
	data, err := e.opts.Pipes.readFile(ctx, "the cloud provider", path)
	if err != nil {
		return err
	}
	source := parse(path, data)
	if !source.problems.failed() {
		source.mergeProvider(e.root, e.folderFrom(path))
	}
	e.problems = append(e.problems, source.problems...)
	return nil
}

// folderFrom returns the folder of a file relative to the document's folder; empty if
// they are the same.
func (e *evaluation) folderFrom(path string) string {
	from := "."
	if e.file != stdinName {
		from = filepath.Dir(e.file)
	}
	from, errFrom := filepath.Abs(from)
	dir, errDir := filepath.Abs(filepath.Dir(path))
	if errFrom != nil || errDir != nil || from == dir {
		return ""
	}
	relative, err := filepath.Rel(from, dir)
	if err != nil {
		return filepath.ToSlash(dir)
	}
	return filepath.ToSlash(relative)
}

// mergeProvider adds the keys of the file of a cloud provider to a manifest. Paths of
// its releases start from dir.
func (d *document) mergeProvider(root *node, dir string) {
	top := d.top()
	if top.node == nil || top.node.kind != mapKind {
		top.Fail(`must be a map with the keys %s, not %s`, enumerate(providerKeys()), top.Describe())
		return
	}
	if !top.Get("cloud_provider").HasKey() {
		top.Fail("has no cloud_provider, for which the file is read")
	}
	for _, item := range top.node.entries {
		key := scalarText(item.key)
		value := top.of(item)
		switch key {
		case "cloud_provider":
			root.entries = append(root.entries, item)
		case "releases":
			d.addNamed(root, item, func(release *node) { relocate(release, dir) })
		case "variables":
			d.addNamed(root, item, func(*node) {})
		case "env":
			if value.Map() {
				addEnv(root, item.value)
			}
		default:
			if !strings.HasPrefix(key, ".") && !strings.HasPrefix(key, "x-") {
				value.FailKey("unknown key of the file of a cloud provider%s", spelling.Suggest(key, providerKeys()))
			}
		}
	}
}

// addNamed adds the items of a list to that of the manifest, except those with a name
// that the manifest has.
func (d *document) addNamed(root *node, list entry, change func(item *node)) {
	items := d.top().of(list).Items()
	if len(items) == 0 {
		return
	}
	to := root.find(scalarText(list.key))
	if to == nil {
		root.entries = append(root.entries, entry{key: list.key, value: &node{kind: listKind, pos: list.value.pos}, pos: list.pos})
		to = &root.entries[len(root.entries)-1]
	}
	if to.value.kind != listKind {
		return // it is reported later
	}
	has := func(name string) bool {
		return slices.ContainsFunc(to.value.items, func(n *node) bool {
			found := n.find("name")
			return found != nil && scalarText(found.value.value) == name
		})
	}
	for _, item := range items {
		if item.node == nil {
			continue
		}
		if item.IsMap() && has(item.Get("name").Scalar()) {
			warnUnknown(item, keysOf(scalarText(list.key)), belongs{}) // those of others are found when they are read
			continue
		}
		change(item.node)
		to.value.items = append(to.value.items, item.node)
	}
}

// keysOf returns the keys of the entries of releases or variables.
func keysOf(list string) []string {
	if list == "variables" {
		return definitionKeys()
	}
	return []string{"name", "url", "sha1", "version", "stemcell", "exported_from"}
}

// relocate changes the path of a release, which is relative to dir, to one that is
// relative to the manifest's folder.
func relocate(release *node, dir string) {
	url := release.find("url")
	if url == nil || dir == "" {
		return
	}
	text, _ := url.value.value.(string)
	path, local := strings.CutPrefix(text, "file://")
	if local && path != "" && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "/") && !filepath.IsAbs(path) {
		url.value.value = "file://" + dir + "/" + path
	}
}

// addEnv adds settings of the agent to each instance group. A group's own settings stay.
func addEnv(root, env *node) {
	groups := root.find("instance_groups").value
	for _, group := range groups.items {
		if group.kind != mapKind {
			continue // it is reported later
		}
		own := group.find("env")
		if own == nil || own.value.present() == nil {
			group.entries = slices.DeleteFunc(group.entries, func(e entry) bool { return e.key == "env" })
			group.entries = append(group.entries, entry{key: "env", value: env.at(env.pos), pos: env.pos})
			continue
		}
		own.value = underlaid(own.value, env)
	}
}

// underlaid returns a map with the missing entries from another one.
func underlaid(own, more *node) *node {
	if own.kind != mapKind || more.kind != mapKind {
		return own
	}
	for _, e := range more.entries {
		key, isText := e.key.(string)
		if !isText {
			continue
		}
		if has := own.find(key); has != nil {
			has.value = underlaid(has.value, e.value)
			continue
		}
		e.value = e.value.at(e.pos)
		own.entries = append(own.entries, e)
	}
	return own
}
