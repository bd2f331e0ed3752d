package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// mostMembers limits a fleet, so that a wrong pattern is an error.
const mostMembers = 100_000

// reader reads the document into the fleet and reports problems.
type reader struct {
	fleet *Fleet
	files files
	// owners are the members by name in lower case, and states the members by state file.
	owners, states map[string]owner
	// unsure is true if members or labels are missing because of other problems.
	unsure bool
	full   bool // the fleet has too many members

	environments environments
	doubt        string                                               // Outside.Doubt
	list         func(l source.List, passed []string) ([]byte, error) // nil: lists are not read
}

// owner is a member with a name or a state file.
type owner struct {
	name string
	pos  document.Position
}

func newReader(f *Fleet, find FindEnvironment) *reader {
	return &reader{
		fleet: f, files: newFiles(filepath.Dir(f.Path)), owners: map[string]owner{}, states: map[string]owner{},
		environments: environments{find: find, found: map[[2]string]foundEnvironment{}},
	}
}

// read reads and checks the complete document.
func (r *reader) read(top document.Value) {
	if len(top.CloudConfigs()) > 0 {
		top.Fail("cloud_config has no meaning at the top of a fleet file: put it in defaults, or in members")
		return
	}
	if !sections.StrictMap(top, "") {
		if top.IsNull() {
			top.Fail("the fleet file is empty")
		}
		return
	}
	if text, ok := top.Get("name").Text(); ok {
		if why := refuseName(text); why != "" {
			top.Get("name").Fail("%s", why)
		}
		r.fleet.Name = text
	}
	var common settings
	if place := top.Get("defaults"); sections.StrictMap(place, "defaults") {
		common = r.readSettings(place)
	}
	list := top.Get("members")
	items := list.Items()
	if len(items) == 0 && (list.IsNull() || list.IsList()) {
		list.Fail("must contain at least one member")
	}
	r.unsure = r.unsure || len(items) == 0
	for _, item := range items {
		r.readEntry(item, common)
	}
	r.readUpdate(top.Get("update"))
}

// readEntry reads an entry of members: one member, or those of a pattern or a
// table.
func (r *reader) readEntry(v document.Value, common settings) {
	if !sections.StrictMap(v, "members[]") {
		if v.IsNull() {
			v.Fail("must be a map with a manifest or a glob")
		}
		r.unsure = true
		return
	}
	own := common.with(r.readSettings(v))
	name, manifest, glob, table := v.Get("name"), v.Get("manifest"), v.Get("glob"), v.Get("table")
	from := v.Get("from")
	if !glob.IsNull() {
		for _, other := range []document.Value{name, manifest, table, from} {
			if !other.IsNull() {
				other.Fail("cannot be used with glob")
			}
		}
		r.readGlob(v, glob, own)
		return
	}
	if !from.IsNull() {
		for _, other := range []document.Value{name, table} {
			if !other.IsNull() {
				other.Fail("cannot be used with from")
			}
		}
		path, _ := manifest.Required("the path of the manifest of the members")
		r.readListed(from, located{manifest, path}, own)
		return
	}
	path, ok := manifest.Required("the path of the member's manifest, or in its place a glob")
	if !table.IsNull() {
		if !name.IsNull() {
			name.Fail("cannot be used with table: each row has a name")
		}
		r.readTable(table, located{manifest, path}, own)
		return
	}
	if !ok {
		r.unsure = true
		return
	}
	m := candidate{settings: own, place: v, manifest: located{manifest, path}}
	if name.IsNull() {
		m.name, m.derived = manifestName(path), true
		if strings.Contains(path, placeholder) {
			manifest.Fail("contains %s, but the member has no name", document.Literal(placeholder))
			r.unsure = true
			return
		}
	} else if m.name, ok = r.readName(name); !ok {
		return
	}
	r.add(m)
}

// readName reads the name of a member.
func (r *reader) readName(v document.Value) (string, bool) {
	name, ok := v.Required("the name of the member")
	r.unsure = r.unsure || !ok
	return name, ok
}

// readTable reads the rows of an entry that share a manifest.
func (r *reader) readTable(table document.Value, manifest located, common settings) {
	rows := table.Items()
	if len(rows) == 0 {
		r.unsure = true
		if table.IsList() {
			table.Fail("must contain at least one row")
		}
	}
	shared := common.encoded()
	for _, row := range rows {
		if !sections.StrictMap(row, "members[].table[]") {
			if row.IsNull() {
				row.Fail("must be a map with the name of a member")
			}
			r.unsure = true
			continue
		}
		own := r.readSettings(row)
		name, ok := r.readName(row.Get("name"))
		if !ok || manifest.path == "" {
			continue
		}
		m := candidate{settings: common.with(own), name: name, place: row, manifest: manifest, row: true}
		if len(own.vars) == 0 {
			m.json = shared
		}
		r.add(m)
	}
}

// readGlob adds a member for each manifest that matches a pattern.
func (r *reader) readGlob(v, glob document.Value, own settings) {
	pattern, ok := glob.Required("a pattern of paths, such as envs/*/manifest.yml")
	if !ok {
		r.unsure = true
		return
	}
	paths, err := r.files.glob(pattern)
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == r.fleet.Path })
	switch {
	case err != nil:
		glob.Fail("%s", err.Error())
	case len(paths) == 0:
		glob.Fail("no file matches %s", pattern)
	}
	r.unsure = r.unsure || len(paths) == 0
	shared := own.encoded()
	for i, name := range globNames(paths) {
		r.add(candidate{settings: own, name: name, json: shared, place: v, manifest: located{glob, paths[i]}, glob: true})
	}
}

// manifestName returns the name of the member with a manifest: that of the file
// without extension, or of its folder if the file is called manifest.
func manifestName(path string) string {
	base := filepath.Base(path)
	if name := strings.TrimSuffix(base, filepath.Ext(base)); name != "manifest" {
		return name
	}
	return filepath.Base(filepath.Dir(path))
}

// globNames names manifests by their files or, if these names are not unique, by
// their folders.
func globNames(paths []string) []string {
	names, seen := make([]string, len(paths)), map[string]bool{}
	for i, path := range paths {
		names[i] = manifestName(path)
		seen[strings.ToLower(names[i])] = true
	}
	if len(seen) < len(paths) {
		for i, path := range paths {
			names[i] = filepath.Base(filepath.Dir(path))
		}
	}
	return names
}

// settings are the keys that defaults, entries and rows share.
type settings struct {
	ops, clouds, varsFiles []located
	store, state           located
	environment            located // bootstrap_yml
	hasEnvironment         bool    // bootstrap_yml is given; an empty path stands for no file
	vars                   map[string]any
	labels                 map[string]string
	blocked                *Blocked
	group                  string // packages_group
}

// readSettings reads the keys that defaults, entries and rows share.
func (r *reader) readSettings(v document.Value) settings {
	group := v.Get("packages_group")
	name, ok := group.Text()
	if why := refuseName(name); ok && why != "" {
		group.Fail("%s", why)
	}
	environment, given := r.readEnvironment(v.Get("bootstrap_yml"))
	return settings{
		environment: environment, hasEnvironment: given,
		group:     name,
		ops:       r.readPaths(v.Get("ops_files")),
		clouds:    r.readPaths(v.Get("cloud_config")),
		varsFiles: r.readPaths(v.Get("vars_files")),
		store:     r.readPath(v.Get("vars_store")),
		state:     r.readState(v.Get("state")),
		vars:      v.Get("vars").Properties(),
		labels:    r.readLabels(v.Get("labels")),
		blocked:   readBlocked(v.Get("blocked")),
	}
}

// with returns s with other settings above it.
func (s settings) with(other settings) settings {
	s.ops = slices.Concat(s.ops, other.ops)
	s.varsFiles = slices.Concat(s.varsFiles, other.varsFiles)
	if len(other.clouds) > 0 {
		s.clouds = other.clouds
	}
	if other.store.path != "" {
		s.store = other.store
	}
	if other.state.path != "" {
		s.state = other.state
	}
	if other.hasEnvironment {
		s.environment, s.hasEnvironment = other.environment, true
	}
	if other.group != "" {
		s.group = other.group
	}
	if other.blocked != nil {
		s.blocked = other.blocked
	}
	s.vars = merged(s.vars, other.vars)
	s.labels = merged(s.labels, other.labels)
	return s
}

// merged returns a map with the entries of both; those of above replace those of below.
func merged[V any](below, above map[string]V) map[string]V {
	switch {
	case len(above) == 0:
		return below
	case len(below) == 0:
		return above
	}
	result := maps.Clone(below)
	maps.Copy(result, above)
	return result
}

// encoded returns the variables as JSON, or nil if there are none.
func (s settings) encoded() []byte {
	if len(s.vars) == 0 {
		return nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s.vars); err != nil { // a number is infinite or not a number: this is reported elsewhere
		return nil
	}
	return escaped(bytes.TrimSpace(b.Bytes()))
}

// escaped returns JSON in which characters that YAML allows only in escaped form are
// escaped.
func escaped(text []byte) []byte {
	forbidden := func(c rune) bool { return 0x7f <= c && c <= 0x9f || c == 0xfeff || c == 0xfffe || c == 0xffff }
	if bytes.IndexFunc(text, forbidden) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, c := range string(text) {
		if forbidden(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.Bytes()
}

// readLabels reads the labels of a member.
func (r *reader) readLabels(v document.Value) map[string]string {
	if !v.Map() {
		r.unsure = r.unsure || !v.IsNull()
		return nil
	}
	labels := make(map[string]string, v.Len())
	for label, value := range v.All() {
		text, ok := value.Text()
		switch {
		case label == "" || strings.ContainsAny(label, "= "):
			value.Fail("the name of a label must not be empty, and contain neither = nor a space")
		case !ok && value.IsNull():
			value.Fail("must be provided: the value of the label")
		}
		r.unsure = r.unsure || !ok
		labels[label] = text
	}
	return labels
}

// readBlocked reads who blocked a member, and why.
func readBlocked(v document.Value) *Blocked {
	if !sections.StrictMap(v, "blocked") {
		return nil
	}
	b := &Blocked{}
	b.By, _ = v.Get("by").Text()
	b.Why, _ = v.Get("why").Required("why the member must not be touched")
	return b
}

// candidate is a member before its name and files are checked.
type candidate struct {
	settings
	name     string
	place    document.Value // the entry or row
	manifest located
	json     []byte // the variables, if they are encoded already
	derived  bool   // the name comes from the manifest's path
	glob     bool   // the name and the manifest come from a pattern
	row      bool   // true: it is a row of a table or of a list
	listed   bool   // it is of a list, and place is where the list is named
}

// add checks a member and adds it to the fleet.
func (r *reader) add(c candidate) {
	if r.full {
		return
	}
	if len(r.fleet.Members) == mostMembers {
		r.full, r.unsure = true, true
		c.place.Fail("this is one member too many: a fleet has at most %d", mostMembers)
		return
	}
	if why := refuseName(c.name); why != "" {
		r.failName(c, "a name "+why, why)
		return
	}
	key := strings.ToLower(c.name)
	if first, twice := r.owners[key]; twice {
		same := ""
		if first.name != c.name {
			same = ", which is the same to some file systems"
		}
		r.failName(c, fmt.Sprintf("the member at %s has the name %q%s", first.pos, first.name, same),
			fmt.Sprintf("must be unique, but the member at %s has the name %q%s", first.pos, first.name, same))
		return
	}
	r.owners[key] = owner{c.name, c.place.Position()}
	m := Member{Name: c.name, Labels: c.labels, Blocked: c.blocked, Pos: c.place.Position(), Vars: c.json, PackagesGroup: c.group}
	if m.Vars == nil {
		m.Vars = c.encoded()
	}
	m.Manifest = r.files.existing(c.manifest, c.name)
	m.Ops = r.files.allExisting(c.ops, c.name)
	m.CloudConfigs = r.files.allExisting(c.clouds, c.name)
	m.VarsFiles = r.files.allExisting(c.varsFiles, c.name)
	m.VarsStore = r.files.inFolder(c.store, c.name)
	m.State = r.files.state(c.state, c.name)
	m.Environment = r.environment(c, m)
	if m.State == "" && !c.row {
		m.State = r.stateOfEnvironment(c, m)
	}
	if m.State == "" && c.row {
		m.State = filepath.Join(filepath.Dir(m.Manifest), c.name+"-state.json")
	}
	r.checkState(c, m)
	r.fleet.Members = append(r.fleet.Members, m)
}

// failName reports a wrong name: at the manifest from which the name is made, with
// reason, or at the name's own place in the fleet file.
func (r *reader) failName(c candidate, reason, wrong string) {
	r.unsure = true
	switch {
	case c.glob:
		c.manifest.place.Fail("the member with the manifest %s would have the name %q, but %s; list these manifests as members with names of their own",
			c.manifest.path, c.name, document.Literal(reason))
	case c.listed:
		c.place.Fail("the list has the name %q, which %s", c.name, document.Literal(wrong))
	case c.derived:
		c.place.Get("name").Fail("must be provided: from its manifest the member would have the name %q, but %s", c.name, document.Literal(reason))
	default:
		c.place.Get("name").Fail("%s", document.Literal(wrong))
	}
}

// checkState reports a state file that another member has.
func (r *reader) checkState(c candidate, m Member) {
	key, err := r.files.stateOf(m)
	if err != nil {
		c.state.orElse(c.place).Fail("%s", err.Error())
		return
	}
	first, twice := r.states[key]
	if !twice {
		r.states[key] = owner{m.Name, m.Pos}
		return
	}
	advice := "; give each member a state of its own"
	if c.state.path == "" {
		advice = "; give this one a state, or list both as rows of a table"
	}
	c.state.orElse(c.place).Fail("the member %s has the same state file as %s, at %s: %s%s",
		document.Literal(m.Name), document.Literal(first.name), first.pos, key, document.Literal(advice))
}
