package document

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/manifest/gen"
)

// Origin says where the value of a variable comes from.
type Origin string

// The origins of values.
const (
	// Given is a value from a flag such as --var.
	Given Origin = "given"
	// Stored is a value from the vars store.
	Stored Origin = "stored"
	// ToGenerate is a value that the next deploy makes.
	ToGenerate Origin = "to be generated"
	// Missing is a value that there is not, and that nothing makes.
	Missing Origin = "missing"
)

// Variable is an entry of the variables section, and what is known of its
// value, which is not shown.
type Variable struct {
	Name, Type string // Type may be empty
	Pos        Position
	Origin     Origin
	// NotAfter is the end of a certificate that is given or stored; else zero.
	NotAfter time.Time
	// Findings say what is wrong with a stored value.
	Findings []gen.Finding
}

// Variables lists the variables section, each name once. Nothing is generated.
// The error is a *Problems if the content of the files is to blame.
func Variables(path string, opts Options) ([]Variable, error) {
	opts.Generate = Plan
	e, err := openVariables(path, opts)
	if err != nil {
		return nil, err
	}
	e.readDefinitions()
	var list []Variable
	now := time.Now()
	for _, def := range e.distinct() {
		v := Variable{Name: def.name, Type: def.kind, Pos: def.place.pos, Origin: Missing}
		value := e.resolve(def.name)
		switch {
		case e.vars[def.name] != nil:
			v.Origin = Given
		case value != nil:
			v.Origin = Stored
			v.Findings = gen.Check(e.wanted(def), value.value.plain(), e.certificate, now, opts.WarningPeriod())
		case def.state == planned:
			v.Origin = ToGenerate
		}
		if value != nil && def.kind == "certificate" {
			_, v.NotAfter, _ = gen.Validity(value.value.plain())
		}
		list = append(list, v)
	}
	e.noteSecrets()
	if _, err := e.finish(); err != nil {
		return nil, err
	}
	return list, nil
}

// WarningPeriod returns how long before its expiry a certificate gets a
// warning.
func (o Options) WarningPeriod() time.Duration {
	if o.ExpiryWarning == 0 {
		return 30 * 24 * time.Hour
	}
	return o.ExpiryWarning
}

// openVariables opens a document for work on its variables section.
func openVariables(path string, opts Options) (*evaluation, error) {
	e, err := open(path, opts)
	switch {
	case err != nil:
		return nil, err
	case e.problems.failed():
		_, err := e.finish()
		return nil, err
	case e.root == nil:
		return nil, &Problems{empty(e.file)}
	}
	return e, nil
}

// distinct returns the first definition of each name.
func (e *evaluation) distinct() []*definition {
	return slices.DeleteFunc(slices.Clone(e.definitions), func(def *definition) bool { return e.byName[def.name] != def })
}

// wanted returns a definition with its options filled in, as far as their
// variables have values.
func (e *evaluation) wanted(def *definition) gen.Definition {
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if place := def.place.Get("options"); place.node != nil && place.node.kind == mapKind {
		options, _ := e.fillOptions(place.node)
		wanted.Options, _ = options.plain().(map[string]any)
		for name, value := range wanted.Options {
			if unfilled(value) {
				delete(wanted.Options, name) // it cannot be compared with anything
			}
		}
	}
	return wanted
}

// unfilled reports whether a value still contains a variable.
func unfilled(value any) bool {
	switch v := value.(type) {
	case string:
		return placeholder.MatchString(v)
	case []any:
		return slices.ContainsFunc(v, unfilled)
	}
	return false
}

// Rotation says which variables get a new value.
type Rotation struct {
	Names []string
	// ExpiringWithin chooses, where there are no Names, the stored
	// certificates that end within that time.
	ExpiringWithin time.Duration
	DryRun         bool // only tell
}

// Rotated is a variable that got a new value, or would get one.
type Rotated struct {
	Name, Type string
	// Why it was chosen: "named", "expires on 2027-01-31", "signed by NAME",
	// "signs NAME", "uses NAME" or "used by NAME".
	Why string
}

// Rotate makes new values for variables, and for the stored ones that were made
// with these: certificates that a CA among them signed, and what has their
// values in its options. It writes them to the vars store in one go: all or,
// with an error, none. It returns them in the order in which they are made.
func Rotate(path string, opts Options, r Rotation) ([]Rotated, error) {
	if opts.VarsStore == "" {
		return nil, errors.New("cannot rotate variables: their values are kept in a vars store; name it with --vars-store FILE")
	}
	opts.Generate = Plan
	e, err := openVariables(path, opts)
	if err != nil {
		return nil, err
	}
	if !r.DryRun {
		defer e.store.close()
		if err := e.store.acquire(e.document); err != nil {
			return nil, err
		}
	}
	e.readDefinitions()
	e.noteSecrets()
	rotated, err := e.choose(r)
	if err != nil {
		return nil, err
	}
	if e.problems.failed() {
		_, err := e.finish()
		return nil, err
	}
	if !r.DryRun {
		e.opts.Generate = Write
	}
	e.regenerate(rotated)
	e.noteSecrets()
	if _, err := e.finish(); err != nil {
		return nil, err
	}
	return rotated, nil
}

// choose plans a rotation.
func (e *evaluation) choose(r Rotation) ([]Rotated, error) {
	for _, name := range r.Names {
		if v := e.vars[name]; v != nil {
			return nil, fmt.Errorf("cannot rotate %q: its value is given with %s, which counts before the vars store; change it there", name, v.origin)
		}
	}
	var defs []gen.Definition
	uses, values := map[string][]string{}, map[string]any{}
	for _, def := range e.distinct() {
		if e.vars[def.name] == nil { // what is given is not ours to make anew
			defs = append(defs, e.wanted(def))
			uses[def.name] = def.uses()
		}
	}
	for name, v := range e.store.values {
		values[name] = v.value.plain()
	}
	expiring := gen.ExpiringWithin(defs, values, time.Now(), r.ExpiringWithin)
	for name, v := range e.vars {
		values[name] = v.value.plain()
	}
	names := r.Names
	if len(names) == 0 {
		names = expiring
	}
	order, err := gen.Rotate(defs, uses, values, names)
	if err != nil {
		return nil, err
	}
	rotated := make([]Rotated, len(order))
	for i, name := range order {
		rotated[i] = Rotated{Name: name, Type: e.byName[name].kind, Why: why(name, names, r, values[name])}
		if rotated[i].Why == "" {
			rotated[i].Why = related(name, order, defs, uses)
		}
	}
	return rotated, nil
}

// why tells why a variable was asked for; "" if it was not.
func why(name string, names []string, r Rotation, value any) string {
	switch {
	case !slices.Contains(names, name):
		return ""
	case len(r.Names) > 0:
		return "named"
	}
	_, end, _ := gen.Validity(value)
	if end.Before(time.Now()) {
		return "expired on " + end.UTC().Format("2006-01-02 15:04 UTC")
	}
	return "expires on " + end.UTC().Format("2006-01-02 15:04 UTC")
}

// related tells what another variable of a rotation has to do with this one.
func related(name string, order []string, defs []gen.Definition, uses map[string][]string) string {
	var reasons [4]string // the first one counts
	for _, d := range defs {
		for i, kind := range []struct {
			with       []string
			from, into string
		}{{gen.Requires(d), "signed by ", "signs "}, {uses[d.Name], "uses ", "used by "}} {
			for _, with := range kind.with {
				switch {
				case d.Name == name && slices.Contains(order, with):
					reasons[i] = kind.from + with
				case with == name && slices.Contains(order, d.Name):
					reasons[2+i] = kind.into + d.Name
				}
			}
		}
	}
	return cmp.Or(reasons[:]...)
}

// uses names the variables in the options of a definition.
func (def *definition) uses() []string {
	place := def.place.Get("options")
	if place.node == nil {
		return nil
	}
	var names []string
	note := func(value any) {
		text, _ := value.(string)
		for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
			name, _ := splitName(match[1])
			names = append(names, name)
		}
	}
	var walk func(n *node)
	walk = func(n *node) {
		note(n.value)
		for _, item := range n.items {
			walk(item)
		}
		for _, e := range n.entries {
			note(e.key)
			walk(e.value)
		}
	}
	walk(place.node)
	return names
}

// regenerate forgets the values of the chosen variables and makes new ones, or
// in the mode Plan only checks that it could.
func (e *evaluation) regenerate(rotated []Rotated) {
	for _, def := range e.definitions {
		def.state = untouched // planning has left marks
	}
	e.generated = nil
	for _, v := range rotated {
		delete(e.store.values, v.Name)
	}
	f := filler{document: e.document, lookup: e.resolve, missing: e.noteMissing}
	for _, v := range rotated {
		if def := e.byName[v.Name]; e.resolve(v.Name) == nil && def.state == blocked {
			f.fill(def.place.node, def.place.at, 0)
		}
	}
	e.problems = append(e.problems, e.missingProblems()...)
}
