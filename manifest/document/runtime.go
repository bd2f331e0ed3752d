package document

import (
	"context"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// runtimeKeys are the keys of a runtime config.
func runtimeKeys() []string { return []string{"releases", "addons", "variables", "tags"} }

// addRuntimeConfigs adds the runtime configs to a manifest, in their order, as the
// Director does: addons after those of the manifest, releases and variables with other
// names than the manifest's, and tags that the manifest does not have.
func (e *evaluation) addRuntimeConfigs(ctx context.Context) error {
	if e.problems.failed() || e.root == nil || e.root.kind != mapKind {
		return nil
	}
	for _, path := range e.opts.RuntimeConfigs {
		data, err := e.opts.Pipes.readFile(ctx, "the runtime config", path)
		if err != nil {
			return err
		}
		source := parse(path, data)
		if !source.problems.failed() {
			e.versions = append(e.versions, source.mergeRuntimeConfig(e.root, e.folderFrom(path))...)
		}
		e.problems = append(e.problems, source.problems...)
	}
	return nil
}

// mergeRuntimeConfig adds the keys of a runtime config to a manifest. Paths of its
// releases start from dir. It returns the versions of releases that are compared when the
// variables in them have values.
func (d *document) mergeRuntimeConfig(root *node, dir string) (later []versions) {
	top := d.top()
	if top.node == nil {
		return nil
	}
	if top.node.kind != mapKind {
		top.Fail("must be a map with the keys %s, not %s", enumerate(runtimeKeys()), top.Describe())
		return nil
	}
	for _, item := range top.node.entries {
		key := scalarText(item.key)
		value := top.of(item)
		switch key {
		case "releases":
			later = d.checkVersions(root, value)
			d.addNamed(root, item, func(release *node) { relocate(release, dir) })
		case "addons":
			if value.IsList() {
				appendItems(root, item)
			} else if !value.IsNull() {
				value.Fail("must be a list of addons, not %s", value.Describe())
			}
		case "variables":
			d.addNamed(root, item, func(*node) {})
		case "tags":
			if !value.Map() {
				continue
			}
			if own := root.find(key); own != nil && own.value.present() != nil {
				own.value = underlaid(own.value, item.value)
				continue
			}
			root.entries = slices.DeleteFunc(root.entries, func(e entry) bool { return e.key == key })
			root.entries = append(root.entries, item)
		default:
			if !strings.HasPrefix(key, ".") && !strings.HasPrefix(key, "x-") {
				value.FailKey("unknown key of a runtime config%s", spelling.Suggest(key, runtimeKeys()))
			}
		}
	}
	return later
}

// versions are the versions of one release: in a runtime config, and in the manifest or in
// an earlier runtime config.
type versions struct {
	of    Value // in the runtime config
	has   *node
	where string // has the other one
}

// checkFilled compares the versions that contain variables. Their values may be secrets.
func (e *evaluation) checkFilled(f filler) {
	for _, v := range e.versions {
		var texts [2]string
		for i, n := range []*node{v.of.node, v.has} {
			if filled := f.fill(n, nil, 0); filled.kind == scalarKind {
				texts[i] = scalarText(filled.value)
			}
		}
		if version, other := texts[0], texts[1]; version != other && !strings.Contains(version+other, "((") {
			e.report(false, v.of.pos, v.of.at, "must be the version of this release in %s, but its value is another one (RuntimeInvalidDeploymentRelease)", v.where)
		}
	}
}

// checkVersions reports releases that the manifest or an earlier runtime config has in
// another version. It returns the versions that contain variables, which are compared
// later. The name in parentheses is that of the Director's error.
func (d *document) checkVersions(root *node, list Value) (later []versions) {
	own := root.find("releases")
	if own == nil || own.value.kind != listKind {
		return nil
	}
	for _, item := range list.Items() {
		wanted, version := item.Get("name").raw(), item.Get("version").raw()
		for _, n := range own.value.items {
			name, has := n.find("name"), n.find("version")
			if wanted == "" || version == "" || name == nil || has == nil || scalarText(name.value.value) != wanted {
				continue
			}
			where := "the manifest"
			if has.value.pos.File != root.pos.File {
				where = has.value.pos.File
			}
			switch other := scalarText(has.value.value); {
			case other == version:
			case strings.Contains(version+other, "(("):
				later = append(later, versions{item.Get("version"), has.value, where})
			default:
				item.Get("version").Fail("must be %s, the version of this release in %s, but is %s (RuntimeInvalidDeploymentRelease)", Literal(other), where, Literal(version))
			}
		}
	}
	return later
}

// appendItems appends the items of a list to that of the manifest.
func appendItems(root *node, list entry) {
	own := root.find(scalarText(list.key))
	switch {
	case own == nil:
		root.entries = append(root.entries, list)
	case own.value.present() == nil:
		own.value = list.value
	case own.value.kind == listKind: // otherwise it is reported later
		own.value.items = append(own.value.items, list.value.items...)
	}
}
