package document

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/spelling"
	"bootstrap/manifest/gen"
)

// Mode says what an evaluation does with variables that have a type but no
// value.
type Mode uint8

// The modes; all but Refuse need a vars store.
const (
	// Refuse reports them as missing.
	Refuse Mode = iota
	// Plan replaces them by symbols such as <generated password NAME>, and
	// writes nothing.
	Plan
	// Write generates them and writes them to the vars store.
	Write
)

// definition is an entry of variables.
type definition struct {
	name, kind string // kind is the type; empty: it cannot be generated
	place      Value
	state      state
	value      *variable // nil until it is generated
	symbol     *variable // used in place of the value; nil until it is needed
	each       bool      // true: each instance has a value of its own
	linked     *linked   // nil: it consumes no link
	converges  bool      // a stored value that does not match the options is generated again
	stale      bool      // that is to be done with the stored value
}

// state is the progress of resolving a definition.
type state uint8

const (
	untouched state = iota
	resolving
	generated
	planned
	blocked // a variable in its options has no value
	failed  // it failed, and that was reported
)

// readDefinitions reads the variables section.
func (e *evaluation) readDefinitions() {
	top := e.top()
	if top.node == nil || top.node.kind != mapKind {
		return
	}
	for _, item := range top.Get("variables").Items() {
		if item.node == nil || item.node.kind != mapKind {
			item.Fail("must be a map with the name of a variable, and its type if it can be generated")
			continue
		}
		def := &definition{name: item.Get("name").raw(), kind: item.Get("type").raw(), place: item}
		if def.name == "" {
			item.Fail("must have a name")
			continue
		}
		e.definitions = append(e.definitions, def)
		if e.byName[def.name] == nil {
			e.byName[def.name] = def
		}
		warnUnknown(item, definitionKeys(), optionsOf(def.kind))
		e.readScope(def)
		if v := e.given(def.name); v != nil && def.kind != "" {
			v.secret = true
		}
	}
	e.checkScopes()
}

// definitionKeys are the keys of an entry of variables.
func definitionKeys() []string {
	return []string{"name", "type", "options", "scope", "consumes", "update_mode"}
}

// optionsOf returns the names of the options of a type, and where they belong.
func optionsOf(kind string) belongs {
	options, _ := gen.Options(kind)
	b := belongs{where: "options"}
	for _, o := range options {
		b.keys = append(b.keys, o.Name)
	}
	return b
}

// belongs says where keys are read that may stand in the wrong place.
type belongs struct {
	keys  []string
	where string
}

// warnUnknown warns about keys of a map that nothing reads. Keys that begin with "." or "x-" are
// for anchors and comments.
func warnUnknown(v Value, known []string, elsewhere belongs) {
	for key, value := range v.All() {
		switch {
		case slices.Contains(known, key), strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		case slices.Contains(elsewhere.keys, key):
			value.WarnKey("unknown key, which is ignored; it is read in %s", elsewhere.where)
		default:
			value.WarnKey("unknown key, which is ignored%s", spelling.Suggest(key, known))
		}
	}
}

// checkOptions warns about options that nothing reads, of variables whose value exists: for
// others, they are errors.
func (e *evaluation) checkOptions() {
	for _, def := range e.distinct() {
		if known := optionsOf(def.kind).keys; def.state == untouched && known != nil && def.each == (e.instance != nil) {
			warnUnknown(def.place.Get("options"), known, belongs{})
		}
	}
}

// given returns the value from the flags, or from the store, or from a source.
func (e *evaluation) given(name string) *variable {
	def := e.byName[name]
	if def != nil && def.stale {
		return cmp.Or(e.vars[name], e.sourced[name])
	}
	if def != nil && def.each {
		if e.instance == nil {
			return nil
		}
		name = e.key(name)
	}
	if v := cmp.Or(e.vars[name], e.recorded[name], e.store.get(name)); v != nil {
		return v
	}
	return e.sourced[name]
}

// resolve returns the value of a variable, and generates it if necessary and
// possible; otherwise it returns nil.
func (e *evaluation) resolve(name string) *variable {
	if v := e.given(name); v != nil {
		return v
	}
	def := e.byName[name]
	if def == nil || def.kind == "" || e.store == nil || e.opts.Generate == Refuse || def.each && e.instance == nil {
		return nil
	}
	switch def.state {
	case untouched:
		def.state = resolving
		e.chain = append(e.chain, name)
		e.generate(def)
		e.chain = e.chain[:len(e.chain)-1]
	case resolving:
		e.failCycle(def)
	}
	return def.value
}

// expectKeys begins to make the keys of definitions without a value, and reports whether
// there are any.
func (e *evaluation) expectKeys() (found bool) {
	for _, def := range e.distinct() {
		if def.kind != "" && def.each == (e.instance != nil) && e.given(def.name) == nil && e.expectKey(def) {
			found = true
		}
	}
	return found
}

// expectKey begins to make the key of a definition. It returns false if there is no
// key, or if its kind depends on a variable.
func (e *evaluation) expectKey(def *definition) bool {
	expected := gen.Definition{Name: def.name, Type: def.kind}
	if options := def.options(); options != nil {
		expected.Options, _ = options.plain().(map[string]any)
		for name, value := range expected.Options {
			switch {
			case !unfilled(value):
			case name == "key_type" || name == "key_length":
				return false
			default:
				delete(expected.Options, name)
			}
		}
	}
	return e.keys.Expect(expected)
}

// failCycle reports a variable whose options depend on itself.
func (e *evaluation) failCycle(def *definition) {
	cycle := append(slices.Clone(e.chain[slices.Index(e.chain, def.name):]), def.name)
	for _, name := range cycle {
		e.byName[name].state = failed
	}
	def.place.Fail("cannot be generated: its options depend on itself: %s", Literal(strings.Join(cycle, " -> ")))
}

// generate generates the value of a definition, or records that it will be generated.
func (e *evaluation) generate(def *definition) {
	place := def.place.Get("options")
	if place.node != nil && place.node.kind != mapKind {
		place.Fail(`must be a map (lines "key: value"), not %s`, place.node.describe())
		def.state = failed
		return
	}
	if def.unlinked() && e.opts.Generate == Write && !e.problems.failed() {
		def.refuseUnlinked()
		return
	}
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if place.node != nil {
		options, open := e.fillOptions(place.node)
		if def.state == failed {
			return
		}
		switch open {
		case blocked:
			def.state = blocked
			return
		case planned:
			def.state = planned
			e.generated = append(e.generated, def.name)
			return
		}
		wanted.Options, _ = options.plain().(map[string]any)
	}
	e.addHosts(def, &wanted)
	if !def.unlinked() {
		def.addLinks(&wanted)
	}
	var errs []error
	for _, wrong := range gen.Validate(wanted) {
		errs = append(errs, wrong)
	}
	for _, name := range gen.Requires(wanted) {
		errs = append(errs, e.requireCA(def, name))
	}
	if def.state == failed {
		return
	}
	if err := errors.Join(errs...); err != nil {
		e.failGenerating(def, err)
		return
	}
	e.generated = append(e.generated, def.name)
	if e.opts.Generate == Plan || def.unlinked() {
		def.state = planned
		return
	}
	value, err := e.keys.Generate(wanted, e.certificate)
	if err != nil {
		e.failGenerating(def, err)
		return
	}
	def.value = &variable{value: toNode(value), loose: true, secret: true, origin: "--vars-store"}
	def.state = generated
	e.store.add(e.key(def.name), value)
}

// fillOptions returns a copy of a definition's options with variables filled in. open is
// planned if one of the variables has no value yet, and blocked if one cannot have one.
// Problems are reported later, when the whole document is filled in.
func (e *evaluation) fillOptions(options *node) (filled *node, open state) {
	quiet := &document{file: e.file}
	open = generated
	f := filler{document: quiet, lookup: e.resolve, missing: func(name string, _ Position, _ *step) {
		if def := e.byName[name]; def == nil || def.state != planned {
			open = blocked
		} else if open != blocked {
			open = planned
		}
	}}
	filled = f.fill(options.at(Position{}), nil, 0)
	if quiet.problems.failed() {
		open = blocked
	}
	return filled, open
}

// requireCA checks that the variable of the CA has a value or will have one.
func (e *evaluation) requireCA(def *definition, name string) error {
	if v := e.resolve(name); v != nil {
		return nil
	}
	wrong := &gen.OptionError{Variable: def.name, Option: "ca"}
	ca := e.byName[name]
	switch {
	case ca == nil:
		wrong.Message = fmt.Sprintf("there is no variable %q%s", name, spelling.Suggest(name, slices.Sorted(maps.Keys(e.byName))))
	case ca.state == untouched:
		wrong.Message = fmt.Sprintf("the variable %q has no value and no type", name)
	case ca.state == blocked:
		def.state = blocked
		return nil
	case ca.state == failed:
		def.state = failed
		return nil
	default:
		return nil
	}
	return wrong
}

// certificate returns the value of the variable that is the CA of others, for package gen.
func (e *evaluation) certificate(name string) (any, bool) {
	v := e.resolve(name)
	if v == nil {
		return nil, false
	}
	v.used = true
	return v.value.plain(), true
}

// failGenerating reports why a variable cannot be generated, with the position
// of each wrong option.
func (e *evaluation) failGenerating(def *definition, err error) {
	def.state = failed
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, one := range joined.Unwrap() {
			e.failGenerating(def, one)
		}
		return
	}
	var option *gen.OptionError
	switch {
	case !errors.As(err, &option):
		def.place.Fail("%v", err)
	case option.Option == "":
		def.place.Fail("the variable %q cannot be generated: %s", Literal(def.name), option.Message)
	default:
		def.place.Get("options").Get(option.Option).Fail("the variable %q cannot be generated: %s", Literal(def.name), option.Message)
	}
}

// checkStored warns about stored values that do not match their definitions,
// and about certificates that expire soon.
func (e *evaluation) checkStored() {
	e.checkOptions()
	now, within := time.Now(), e.opts.WarningPeriod()
	for _, def := range e.distinct() {
		v := e.given(def.name)
		key, advice := e.key(def.name), "bootstrap variables rotate generates a new one"
		if v != nil && v == e.recorded[key] {
			advice = "a deploy of the manifest, without --version, has that of the vars store"
		} else if v == nil || v != e.store.get(key) {
			continue
		}
		if def.kind == "" || def.each != (e.instance != nil) {
			continue
		}
		for _, finding := range e.findings(def, v, now, within) {
			e.report(true, v.value.pos, nil, "%s; %s", finding, Literal(advice))
		}
	}
}

// removeDefinitions removes the definitions of variables that have a value, as
// create-env does before it computes the digest.
func (e *evaluation) removeDefinitions() {
	top := e.top()
	if top.node == nil {
		return
	}
	list := top.Get("variables").node
	if list == nil || list.kind != listKind {
		return
	}
	kept := make([]*node, 0, len(list.items))
	resolved := map[*node]bool{}
	for _, def := range e.definitions {
		v := e.resolve(def.name)
		if v == nil && e.byName[def.name].state != planned {
			continue
		}
		if v != nil {
			v.used = true
		}
		resolved[def.place.node] = true
		if first := e.byName[def.name]; first != def {
			def.place.Fail("the variable %q is defined twice, first in %s", Literal(def.name), first.place.pos)
		}
	}
	for _, item := range list.items {
		if !resolved[item] {
			kept = append(kept, item)
		}
	}
	list.items = kept
}

// plain returns the tree in the types of JSON, which package gen expects: the
// keys of maps are text.
func (n *node) plain() any {
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case mapKind:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[scalarText(e.key)] = e.value.plain()
		}
		return m
	}
	return settledScalar(n.value)
}

// toNode returns a value in the types of JSON as a tree.
func toNode(value any) *node {
	n := &node{}
	switch v := value.(type) {
	case map[string]any:
		n.kind = mapKind
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.entries = append(n.entries, entry{key: key, value: toNode(v[key])})
		}
	case []any:
		n.kind = listKind
		for _, item := range v {
			n.items = append(n.items, toNode(item))
		}
	default:
		n.value = value
	}
	return n
}
