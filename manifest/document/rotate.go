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

// Rotation selects the variables that get a new value.
type Rotation struct {
	Names []string
	// ExpiringWithin selects, if Names is empty, the stored certificates that
	// expire within that time.
	ExpiringWithin time.Duration
	// Selected reports whether a value of an instance is rotated if its variable is named
	// or it expires; nil: those of all instances are.
	Selected func(Instance) bool
	DryRun   bool // true: change nothing
}

// Rotated is a variable that got a new value or, with DryRun, would get one.
type Rotated struct {
	Name, Type string
	Instance   string // the instance whose value it is, with scope: instance; empty: of all
	// Why is the reason: "named", "expires on 2027-01-31 …", "expired on …",
	// "signed by NAME", "signs NAME", "uses NAME" or "used by NAME".
	Why string

	key string      // name of the value in the vars store
	by  *evaluation // generates it
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
	of, err := e.ofEach(ctx)
	if err != nil {
		return nil, err
	}
	rotated, err := e.choose(r, of)
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

// choose returns the variables of a rotation in the order of their generation. of are the
// evaluations for the instances.
func (e *evaluation) choose(r Rotation, of []*evaluation) ([]Rotated, error) {
	for _, name := range r.Names {
		if v := e.vars[name]; v != nil {
			return nil, fmt.Errorf("cannot rotate %q: its value comes from %s, which takes precedence over the vars store; change it there", name, v.origin)
		}
		if v := e.sourced[name]; v != nil {
			return nil, fmt.Errorf("cannot rotate %q: its value comes from %s, and is not in the vars store; change it there", name, v.origin)
		}
	}
	c := choice{uses: map[string][]string{}, values: map[string]any{}, by: map[string]Rotated{}}
	for name, v := range e.store.values {
		c.values[name] = v.value.plain()
	}
	c.add(e, false)
	for _, own := range of {
		c.add(own, true)
	}
	names, err := c.named(e, r)
	if err != nil {
		return nil, err
	}
	if len(r.Names) == 0 {
		names = slices.DeleteFunc(gen.ExpiringWithin(c.defs, c.values, time.Now(), r.ExpiringWithin), func(key string) bool { return !c.selected(key, r) })
	}
	for _, own := range append(of, e) {
		for _, given := range []variables{own.sourced, own.vars} {
			for name, v := range given {
				c.values[name] = v.value.plain()
			}
		}
	}
	order, err := gen.Rotate(c.defs, c.uses, c.values, names)
	if err != nil {
		return nil, err
	}
	rotated := make([]Rotated, len(order))
	for i, key := range order {
		rotated[i] = c.by[key]
		rotated[i].Why = reasonOf(key, names, r, c.values[key])
		if rotated[i].Why == "" {
			rotated[i].Why = related(key, order, c.defs, c.uses)
		}
	}
	return rotated, nil
}

// choice has the variables and the values of instances that a rotation can name.
type choice struct {
	defs   []gen.Definition
	uses   map[string][]string
	values map[string]any
	by     map[string]Rotated
}

// add adds the variables of an evaluation, or those with scope: instance of an instance.
// Given values are left out, because only the user can change them.
func (c *choice) add(e *evaluation, each bool) {
	for _, def := range e.distinct() {
		key := e.key(def.name)
		if def.each != each || e.vars[key] != nil || e.sourced[key] != nil {
			continue
		}
		wanted := e.wanted(def, e.resolve)
		wanted.Name = key
		if ca, ok := wanted.Options["ca"].(string); ok {
			wanted.Options["ca"] = e.key(ca)
		}
		c.defs = append(c.defs, wanted)
		for _, name := range def.uses() {
			c.uses[key] = append(c.uses[key], e.key(name))
		}
		of := Rotated{Name: def.name, Type: def.kind, key: key, by: e}
		if each {
			of.Instance = e.instance.Name
		}
		c.by[key] = of
	}
}

// selected reports whether a rotation may choose a value.
func (c *choice) selected(key string, r Rotation) bool {
	if r.Selected == nil {
		return true
	}
	of := c.by[key]
	return of.Instance != "" && r.Selected(*of.by.instance)
}

// named returns the names of the values that a rotation names: of a variable with scope:
// instance, those of the selected instances.
func (c *choice) named(e *evaluation, r Rotation) (keys []string, err error) {
	for _, name := range r.Names {
		def := e.byName[name]
		switch {
		case (def == nil || def.kind == "") && c.by[name].key == "":
			var typed []gen.Definition
			for _, def := range e.distinct() {
				typed = append(typed, gen.Definition{Name: def.name, Type: def.kind})
			}
			_, err := gen.Rotate(typed, nil, nil, []string{name})
			return nil, err
		case def != nil && def.each:
			before := len(keys)
			for _, of := range c.defs {
				if c.by[of.Name].Name == name && c.selected(of.Name, r) {
					keys = append(keys, of.Name)
				}
			}
			if len(keys) == before {
				return nil, fmt.Errorf("cannot rotate %q: it has a value for each instance, and there is no such instance", name)
			}
		case !c.selected(name, r):
			return nil, fmt.Errorf("cannot rotate %q for some instances: it has one value for all; leave --instance out, or add scope: instance to the variable", name)
		default:
			keys = append(keys, name)
		}
	}
	return keys, nil
}

// reasonOf returns why a variable was selected, or "" if it was not.
func reasonOf(name string, names []string, r Rotation, value any) string {
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
	for _, v := range rotated {
		for _, def := range v.by.definitions {
			def.state = untouched
		}
		v.by.opts.Generate, v.by.generated = e.opts.Generate, nil
		delete(e.store.values, v.key)
	}
	if e.opts.Generate == Write {
		for _, v := range rotated {
			v.by.expectKey(v.by.byName[v.Name])
		}
	}
	for _, v := range rotated {
		f := filler{document: v.by.document, lookup: v.by.resolve, missing: v.by.recordMissing}
		if def := v.by.byName[v.Name]; v.by.resolve(v.Name) == nil && def.state == blocked {
			f.fill(def.place.node, def.place.at, 0)
		}
	}
	for _, own := range rotated {
		if own.by != e {
			e.problems = append(e.problems, own.by.problems...)
			e.problems = append(e.problems, own.by.missingProblems()...)
			own.by.problems, own.by.missing = nil, nil
		}
	}
	e.problems = append(e.problems, e.missingProblems()...)
}
