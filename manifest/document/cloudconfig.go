package document

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// cloudLists are the keys of a cloud config with lists, which are joined if there are
// several files; cloudMap is a key that only one file may have.
const (
	cloudLists = "azs networks vm_types vm_extensions disk_types"
	cloudMap   = "compilation"
)

// cloudSections returns the top-level keys of a cloud config.
func cloudSections() []string { return append(strings.Fields(cloudLists), cloudMap) }

// cloudConfig is the cloud config that was added to a document.
type cloudConfig struct {
	files []string
	// origin is the index of a list's item before variables were filled in; used has the
	// items that the document needs.
	origin map[*node]int
	used   map[*node]bool
}

// addCloudConfig applies the operations and adds the cloud config to the document, as the
// Director does: its keys become keys of the manifest. If there is a cloud config,
// operations on its keys apply to its files together, and all others to the manifest.
// byKey is false for a document that may not be a manifest.
func (e *evaluation) addCloudConfig(ctx context.Context, ops []operation, byKey bool) error {
	own, shared := ops, []operation(nil)
	if len(e.opts.CloudConfigs) > 0 || byKey && e.namesCloudConfig(ops) {
		own = nil
		for _, op := range ops {
			if slices.Contains(cloudSections(), op.path.section()) {
				shared = append(shared, op)
			} else {
				own = append(own, op)
			}
		}
	}
	e.apply(own)
	files := e.opts.CloudConfigs
	if byKey && e.root != nil && e.root.kind == mapKind {
		named := e.cloudFiles()
		if len(files) == 0 {
			files = named
		}
	}
	if len(files) > 0 && !e.problems.failed() {
		if err := e.mergeCloudConfig(ctx, files); err != nil {
			return err
		}
	}
	if len(shared) > 0 && !e.problems.failed() {
		e.apply(shared)
	}
	return nil
}

// section returns the top-level key that a path begins with, or "".
func (p opPath) section() string {
	if len(p.tokens) == 0 || p.tokens[0].kind != keyToken {
		return ""
	}
	return p.tokens[0].key
}

// namesCloudConfig reports whether the manifest or an operation has the key of
// the cloud config.
func (e *evaluation) namesCloudConfig(ops []operation) bool {
	return e.root != nil && e.root.find("cloud_config") != nil ||
		slices.ContainsFunc(ops, func(op operation) bool { return op.path.section() == "cloud_config" })
}

// cloudFiles removes the key of the cloud config from the document, and returns
// the files that it names. Relative paths start from the manifest's folder.
func (e *evaluation) cloudFiles() []string {
	value := e.top().Get("cloud_config")
	e.root.entries = slices.DeleteFunc(e.root.entries, func(e entry) bool { return e.key == "cloud_config" })
	places := []Value{value}
	if value.IsList() {
		places = value.Items()
	}
	var files []string
	for _, place := range places {
		path, ok := place.Text()
		switch {
		case value.IsNull(), !ok && !place.IsNull():
		case strings.TrimSpace(path) == "":
			place.Fail("must be the path of a cloud config, or a list of paths")
		case placeholder.MatchString(path):
			place.Fail("must not contain variables, because the cloud config is read before they are filled in; name the file with --cloud-config instead")
		default:
			if !strings.HasPrefix(path, "~") && !filepath.IsAbs(path) && e.file != stdinName {
				path = filepath.Join(filepath.Dir(e.file), path)
			}
			files = append(files, path)
		}
	}
	return files
}

// mergeCloudConfig reads the files and adds their keys to the document.
func (e *evaluation) mergeCloudConfig(ctx context.Context, files []string) error {
	if e.root == nil {
		e.root = &node{kind: mapKind, pos: Position{e.file, 1, 1}}
	}
	if e.root.kind != mapKind {
		return nil // it is reported later
	}
	e.cloud = &cloudConfig{files: files, origin: map[*node]int{}, used: map[*node]bool{}}
	if !e.checkStyle() {
		return nil
	}
	merged := make([]entry, 0, len(cloudSections()))
	for _, key := range strings.Fields(cloudLists) {
		pos := Position{files[0], 1, 1}
		merged = append(merged, entry{key: key, value: &node{kind: listKind, pos: pos}, pos: pos})
	}
	for _, file := range files {
		data, err := e.opts.Pipes.readFile(ctx, "the cloud config", file)
		if err != nil {
			return err
		}
		source := parse(file, data)
		if !source.problems.failed() {
			merged = source.mergeInto(merged)
		}
		e.problems = append(e.problems, source.problems...)
	}
	e.root.entries = append(e.root.entries, merged...)
	return nil
}

// checkStyle reports keys of create-env's style, which a manifest with a cloud config
// cannot have. It returns true if there are none. Names in parentheses are the Director's
// names of errors.
func (e *evaluation) checkStyle() bool {
	files := strings.Join(e.cloud.files, ", ")
	top := e.top()
	fail := func(key, format string, args ...any) {
		place := top.Get(key)
		e.report(false, place.key, place.at, format, args...)
	}
	if e.root.find("resource_pools") != nil {
		fail("resource_pools", "the manifest is in create-env's style, with networks and resource_pools of its own, and so cannot be used with the cloud config %s: leave the cloud config out, or give the instance group a vm_type and a stemcell in place of a resource_pool (V1DeprecatedResourcePools)", files)
		return false
	}
	ok := true
	for _, key := range append(cloudSections(), "disk_pools") {
		if e.root.find(key) == nil {
			continue
		}
		ok = false
		switch key {
		case "networks":
			fail(key, "must be in the cloud config %s, not in the manifest (V1DeprecatedNetworks)", files)
		case "disk_pools":
			fail(key, "must be replaced by disk_types in the cloud config %s (V1DeprecatedDiskPools)", files)
		default:
			fail(key, "must be in the cloud config %s, not in the manifest (DeploymentInvalidProperty)", files)
		}
	}
	return ok
}

// mergeInto adds the keys of a cloud config to those of the files before it.
func (d *document) mergeInto(merged []entry) []entry {
	top := d.top()
	switch {
	case top.node == nil:
		top.Fail("the cloud config is empty")
		return merged
	case top.node.kind != mapKind:
		top.Fail(`a cloud config must be a map with the keys %s, not %s`, enumerate(cloudSections()), top.Describe())
		return merged
	case !slices.ContainsFunc(top.node.entries, func(e entry) bool { return slices.Contains(cloudSections(), scalarText(e.key)) }):
		top.Fail("is not a cloud config: it has none of the keys %s", enumerate(cloudSections()))
		return merged
	}
	for _, e := range top.node.entries {
		key := scalarText(e.key)
		value := top.of(e)
		at := slices.IndexFunc(merged, func(m entry) bool { return m.key == key })
		switch {
		case key == cloudMap && at >= 0:
			d.report(false, e.pos, value.at, "must be in one cloud config only, but is in %s as well (CloudConfigMergeError)", merged[at].pos)
		case key == cloudMap && !value.IsNull():
			merged = append(merged, e)
		case key == cloudMap, at >= 0 && value.IsNull():
		case at >= 0 && (value.IsList() || value.wholeVariable()):
			list := merged[at].value
			if len(list.items) == 0 {
				merged[at].pos, list.pos = e.pos, e.value.pos
			}
			if value.IsList() {
				list.items = append(list.items, e.value.items...)
			} else {
				list.items = append(list.items, e.value)
			}
		case at >= 0:
			value.Fail(`must be a list (lines that begin with "- "), not %s`, value.Describe())
		case strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		default:
			value.WarnKey("unknown key of a cloud config, which is ignored%s", spelling.Suggest(key, cloudSections()))
		}
	}
	return merged
}

// wholeVariable reports whether the value is a text that is one variable.
func (v Value) wholeVariable() bool {
	if !v.IsText() {
		return false
	}
	text := v.Scalar()
	found := placeholder.FindStringIndex(text)
	return found != nil && found[0] == 0 && found[1] == len(text)
}

// flattenCloudConfig replaces each variable in place of a whole section of the
// cloud config by the items of its value.
func (e *evaluation) flattenCloudConfig() {
	if e.cloud == nil || e.root.kind != mapKind {
		return
	}
	for _, key := range strings.Fields(cloudLists) {
		section := e.root.find(key)
		if section == nil || section.value.kind != listKind {
			continue
		}
		list := section.value
		var flat []*node
		for i, item := range list.items {
			items := []*node{item}
			if item.kind == listKind {
				items = item.items
			}
			for _, item := range items {
				e.cloud.origin[item] = i
				flat = append(flat, item)
			}
		}
		list.items = flat
	}
}

// CloudConfigs returns the files of the cloud config that were added to the
// document; empty if there are none.
func (v Value) CloudConfigs() []string {
	if v.document == nil || v.cloud == nil {
		return nil
	}
	return v.cloud.files
}

// Use records that the document needs this item of the cloud config. Other items are left
// out of its digest and its sketch: changing them for other deployments does not change
// this one.
func (v Value) Use() {
	if v.cloud != nil && v.node != nil {
		v.cloud.used[v.node] = true
	}
}

// needed returns the document without the items of the cloud config that it does not use.
// The section about compilation VMs is left out, too: it changes no instance.
func (d *document) needed() *node {
	if d.cloud == nil || d.root == nil || d.root.kind != mapKind {
		return d.root
	}
	root := *d.root
	root.entries = nil
	for _, e := range d.root.entries {
		key := scalarText(e.key)
		switch {
		case key == cloudMap:
			continue
		case slices.Contains(strings.Fields(cloudLists), key) && e.value.kind == listKind:
			list := *e.value
			list.items = slices.DeleteFunc(slices.Clone(list.items), func(n *node) bool { return !d.cloud.used[n] })
			e.value = &list
		}
		root.entries = append(root.entries, e)
	}
	return &root
}

// neededIn removes from a sketch the items that the document does not use.
func (d *document) neededIn(sketch any) {
	top, ok := sketch.(map[any]any)
	if d.cloud == nil || !ok {
		return
	}
	delete(top, cloudMap)
	used := map[string]map[int]bool{}
	for _, key := range strings.Fields(cloudLists) {
		used[key] = map[int]bool{}
		if section := d.root.find(key); section != nil {
			for _, item := range section.value.items {
				if d.cloud.used[item] {
					used[key][d.cloud.origin[item]] = true
				}
			}
		}
		list, ok := top[key].([]any)
		if !ok {
			continue
		}
		kept := make([]any, 0, len(list))
		for i, item := range list {
			if used[key][i] {
				kept = append(kept, item)
			}
		}
		top[key] = kept
	}
}

// namedCloudConfig returns the files of the cloud config that a manifest names, for
// InputsDigest. It skips files that can be read only once.
func namedCloudConfig(ctx context.Context, path string, opts Options) ([]string, error) {
	for _, file := range append([]string{path}, opts.Ops...) {
		if expanded, err := ExpandHome(file); err == nil {
			if info, err := os.Stat(expanded); err == nil && !info.Mode().IsRegular() {
				return nil, nil
			}
		}
	}
	file, data, err := readDocument(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e := &evaluation{document: parse(file, data), opts: opts}
	var ops []operation
	for _, path := range opts.Ops {
		data, err := readFile(ctx, "the operations file", path)
		if err != nil {
			return nil, err
		}
		for _, op := range e.readOperations(path, data) {
			if op.path.section() == "cloud_config" {
				ops = append(ops, op)
			}
		}
	}
	if e.root == nil || e.root.kind != mapKind {
		return nil, nil
	}
	e.apply(ops)
	files := e.cloudFiles()
	if e.problems.failed() {
		return nil, nil // a wrong manifest has no plan
	}
	return files, nil
}
