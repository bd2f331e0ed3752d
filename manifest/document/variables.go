package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/manifest/gen"
	"bootstrap/manifest/store"
)

// Origin is the origin of a variable's value.
type Origin string

// The origins of values.
const (
	// Given is a value from a flag such as --var.
	Given Origin = "given"
	// Stored is a value from the vars store.
	Stored Origin = "stored"
	// Sourced is a value from a source such as a credential server.
	Sourced Origin = "from a source"
	// ToGenerate is a value that the next deploy generates.
	ToGenerate Origin = "to be generated"
	// Missing means that there is no value, and none can be generated.
	Missing Origin = "missing"
)

// Variable describes an entry of the variables section, without its value.
type Variable struct {
	Name, Type string // Type may be empty
	Pos        Position
	Origin     Origin
	// NotAfter is when a given or stored certificate expires; zero for others.
	NotAfter time.Time
	// Findings are the problems of a stored value.
	Findings []gen.Finding
}

// Variables lists the variables section, each name once. It generates nothing. The
// error is a *Problems if the content of the files is wrong.
func Variables(ctx context.Context, path string, opts Options) ([]Variable, error) {
	opts.Generate = Plan
	e, err := openVariables(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e.readDefinitions()
	if err := errors.Join(e.ask(ctx), e.readLinks(ctx)); err != nil {
		return nil, err
	}
	var list []Variable
	now := time.Now()
	for _, def := range e.distinct() {
		v := Variable{Name: def.name, Type: def.kind, Pos: def.place.pos, Origin: Missing}
		value := e.resolve(def.name)
		switch {
		case e.vars[def.name] != nil:
			v.Origin = Given
		case value != nil && value == e.sourced[def.name]:
			v.Origin = Sourced
		case value != nil:
			v.Origin = Stored
			v.Findings = e.findings(def, value, now, opts.WarningPeriod())
		case def.state == planned:
			v.Origin = ToGenerate
		}
		if value != nil && def.kind == "certificate" {
			_, v.NotAfter, _ = gen.Validity(value.value.plain())
		}
		list = append(list, v)
	}
	e.collectSecrets()
	if _, err := e.finish(ctx); err != nil {
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
func openVariables(ctx context.Context, path string, opts Options) (*evaluation, error) {
	e, err := open(ctx, path, opts, true)
	switch {
	case err != nil:
		return nil, err
	case e.problems.failed():
		_, err := e.finish(ctx)
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

// wanted returns a definition with its options filled in. Options whose
// variables have no value are left out.
func (e *evaluation) wanted(def *definition) gen.Definition {
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if place := def.place.Get("options"); place.node != nil && place.node.kind == mapKind {
		options, _ := e.fillOptions(place.node)
		wanted.Options, _ = options.plain().(map[string]any)
		for name, value := range wanted.Options {
			if unfilled(value) {
				delete(wanted.Options, name) // it cannot be compared with the value
			}
		}
	}
	def.addLinks(&wanted)
	return wanted
}

// requires returns the names of the variables that are needed to generate a value.
func (def *definition) requires() []string {
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if place := def.place.Get("options"); place.node != nil && place.node.kind == mapKind {
		wanted.Options, _ = place.node.plain().(map[string]any)
	}
	return slices.DeleteFunc(gen.Requires(wanted), func(name string) bool { return unfilled(name) })
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

// Rotation selects the variables that get a new value.
type Rotation struct {
	Names []string
	// ExpiringWithin selects, if Names is empty, the stored certificates that
	// expire within that time.
	ExpiringWithin time.Duration
	DryRun         bool // true: change nothing
}

// Rotated is a variable that got a new value or, with DryRun, would get one.
type Rotated struct {
	Name, Type string
	// Why is the reason: "named", "expires on 2027-01-31 …", "expired on …",
	// "signed by NAME", "signs NAME", "uses NAME" or "used by NAME".
	Why string
}

// Rotate generates new values for the selected variables and for the stored
// variables that depend on them: certificates signed by a selected CA, and
// variables with a selected one in their options. It writes all of them to the
// vars store or, with an error, none. It returns them in the order of their
// generation.
func Rotate(ctx context.Context, path string, opts Options, r Rotation) ([]Rotated, error) {
	if opts.VarsStore == "" {
		return nil, errors.New("cannot rotate variables without the vars store that keeps their values; name it with --vars-store FILE")
	}
	opts.Generate = Plan
	e, err := openVariables(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e.readDefinitions()
	if err := errors.Join(e.ask(ctx), e.readLinks(ctx)); err != nil {
		return nil, err
	}
	if !r.DryRun {
		defer e.close()
		if err := e.store.acquire(ctx, e.document); err != nil {
			return nil, err
		}
	}
	if !e.store.file.Exists() {
		return nil, &FileError{Err: &store.LostError{Text: fmt.Sprintf("cannot rotate variables: the vars store %s does not exist; name the one that has their values", e.store.file.Shown)}}
	}
	e.collectSecrets()
	rotated, err := e.choose(r)
	if err != nil {
		return nil, err
	}
	if e.problems.failed() {
		_, err := e.finish(ctx)
		return nil, err
	}
	if !r.DryRun {
		e.opts.Generate = Write
	}
	e.regenerate(rotated)
	e.collectSecrets()
	if _, err := e.finish(ctx); err != nil {
		return nil, err
	}
	return rotated, nil
}

// choose returns the variables of a rotation in the order of their generation.
func (e *evaluation) choose(r Rotation) ([]Rotated, error) {
	for _, name := range r.Names {
		if v := e.vars[name]; v != nil {
			return nil, fmt.Errorf("cannot rotate %q: its value comes from %s, which takes precedence over the vars store; change it there", name, v.origin)
		}
		if v := e.sourced[name]; v != nil {
			return nil, fmt.Errorf("cannot rotate %q: its value comes from %s, and is not in the vars store; change it there", name, v.origin)
		}
	}
	var defs []gen.Definition
	uses, values := map[string][]string{}, map[string]any{}
	for _, def := range e.distinct() {
		if e.vars[def.name] == nil && e.sourced[def.name] == nil { // only the user can change a given value
			defs = append(defs, e.wanted(def))
			uses[def.name] = def.uses()
		}
	}
	for name, v := range e.store.values {
		values[name] = v.value.plain()
	}
	expiring := gen.ExpiringWithin(defs, values, time.Now(), r.ExpiringWithin)
	for _, given := range []variables{e.sourced, e.vars} {
		for name, v := range given {
			values[name] = v.value.plain()
		}
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

// why returns the reason why a variable was selected, or "" if it was not.
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

// related returns how two variables of the rotation depend on each other.
func related(name string, order []string, defs []gen.Definition, uses map[string][]string) string {
	var reasons [4]string // the first one that is not empty is returned
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

// uses returns the names of the variables in the options of a definition.
func (def *definition) uses() []string {
	place := def.place.Get("options")
	if place.node == nil {
		return nil
	}
	var names []string
	place.node.variables(func(name string) { names = append(names, name) })
	return names
}

// regenerate generates new values for the selected variables or, with the mode
// Plan, only checks that it could.
func (e *evaluation) regenerate(rotated []Rotated) {
	for _, def := range e.definitions {
		def.state = untouched // choose has resolved some of them already
	}
	e.generated = nil
	for _, v := range rotated {
		delete(e.store.values, v.Name)
		if e.opts.Generate == Write {
			e.expectKey(e.byName[v.Name])
		}
	}
	f := filler{document: e.document, lookup: e.resolve, missing: e.recordMissing}
	for _, v := range rotated {
		if def := e.byName[v.Name]; e.resolve(v.Name) == nil && def.state == blocked {
			f.fill(def.place.node, def.place.at, 0)
		}
	}
	e.problems = append(e.problems, e.missingProblems()...)
}
