package document

import (
	"context"
	"errors"
	"slices"
	"time"

	"bootstrap/manifest/gen"
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
	Instance   string // the instance whose value it is, with scope: instance; empty: of all
	Pos        Position
	Origin     Origin
	// NotAfter is when a given or stored certificate expires; zero for others.
	NotAfter time.Time
	// Findings are the problems of a stored value.
	Findings []gen.Finding
}

// Variables lists the variables section, each name once, or with scope: instance once for
// each of opts.Instances. It generates nothing. The error is a *Problems if the content of
// the files is wrong.
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
	of, err := e.ofEach(ctx)
	if err != nil {
		return nil, err
	}
	var list []Variable
	now := time.Now()
	for _, def := range e.distinct() {
		if !def.each || len(of) == 0 {
			list = append(list, e.describe(def, now))
			continue
		}
		for _, own := range of {
			list = append(list, own.describe(own.byName[def.name], now))
		}
	}
	e.collectSecrets()
	if _, err := e.finish(ctx); err != nil {
		return nil, err
	}
	return list, nil
}

// describe describes a variable.
func (e *evaluation) describe(def *definition, now time.Time) Variable {
	v := Variable{Name: def.name, Type: def.kind, Pos: def.place.pos, Origin: Missing}
	if def.each && e.instance != nil {
		v.Instance = e.instance.Name
	}
	value := e.resolve(def.name)
	switch key := e.key(def.name); {
	case e.vars[key] != nil:
		v.Origin = Given
	case value != nil && value == e.sourced[key]:
		v.Origin = Sourced
	case value != nil:
		v.Origin = Stored
		v.Findings = e.findings(def, value, now, e.opts.WarningPeriod())
	case def.state == planned, def.each && e.instance == nil && def.kind != "":
		v.Origin = ToGenerate
	}
	if value != nil && def.kind == "certificate" {
		_, v.NotAfter, _ = gen.Validity(value.value.plain())
	}
	return v
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

// wanted returns a definition with its options filled in, with the values that lookup
// returns. Options whose variables have no value are left out.
func (e *evaluation) wanted(def *definition, lookup func(name string) *variable) gen.Definition {
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if options := def.options(); options != nil {
		f := filler{document: &document{file: e.file}, lookup: lookup, missing: func(string, Position, *step) {}}
		wanted.Options, _ = f.fill(options.at(Position{}), nil, 0).plain().(map[string]any)
		for name, value := range wanted.Options {
			if unfilled(value) {
				delete(wanted.Options, name) // it cannot be compared with the value
			}
		}
	}
	def.addLinks(&wanted)
	return wanted
}

// options returns the options as they are written; nil: they are not a map.
func (def *definition) options() *node {
	if place := def.place.Get("options"); place.node != nil && place.node.kind == mapKind {
		return place.node
	}
	return nil
}

// requires returns the names of the variables that are needed to generate a value.
func (def *definition) requires() []string {
	wanted := gen.Definition{Name: def.name, Type: def.kind}
	if options := def.options(); options != nil {
		wanted.Options, _ = options.plain().(map[string]any)
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
