package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rotate plans a rotation. It returns the variables to generate again, each after the
// variables that it depends on: the CA that signs it, and variables in its options,
// which uses returns. The result contains the named variables, stored variables that
// depend on them, directly or not, and variables without a value that one of these
// depends on. values are the stored values by name. It is an error if a name is not
// defined or if variables depend on each other.
func Rotate(defs []Definition, uses map[string][]string, values map[string]any, names []string) ([]string, error) {
	p := planner{index: map[string]int{}, uses: uses, values: values, chosen: map[string]bool{}, state: map[string]int{}}
	for _, d := range defs {
		// Of two definitions with one name, the first is used.
		if _, known := p.index[d.Name]; d.Type != "" && !known {
			p.index[d.Name] = len(p.defs)
			p.defs = append(p.defs, d)
		}
	}
	var unknown []string
	for _, name := range names {
		if p.definition(name) == nil {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
		p.chosen[name] = true
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("cannot rotate %s: the manifest has no such variable with a type; it has %s", strings.Join(unknown, ", "), p.names())
	}
	p.spread()
	for _, d := range p.defs {
		if p.chosen[d.Name] {
			if err := p.visit(d, nil); err != nil {
				return nil, err
			}
		}
	}
	return p.order, nil
}

// ExpiringWithin returns the variables whose stored certificate has expired or
// expires within the duration, in the order of the definitions.
func ExpiringWithin(defs []Definition, values map[string]any, now time.Time, within time.Duration) []string {
	var names []string
	for _, d := range defs {
		if d.Type != "certificate" || slices.Contains(names, d.Name) {
			continue
		}
		if _, notAfter, ok := Validity(values[d.Name]); ok && notAfter.Sub(now) <= within {
			names = append(names, d.Name)
		}
	}
	return names
}

type planner struct {
	defs   []Definition
	index  map[string]int
	uses   map[string][]string
	values map[string]any
	chosen map[string]bool
	state  map[string]int // 0: not visited, 1: being visited, 2: done
	order  []string
}

func (p *planner) definition(name string) *Definition {
	i, ok := p.index[name]
	if !ok {
		return nil
	}
	return &p.defs[i]
}

func (p *planner) names() string {
	if len(p.defs) == 0 {
		return "none"
	}
	words := make([]string, len(p.defs))
	for i, d := range p.defs {
		words[i] = d.Name
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// madeWith returns the variables that a definition depends on.
func (p *planner) madeWith(d Definition) []string {
	return slices.Concat(Requires(d), p.uses[d.Name])
}

// spread adds variables that depend on selected ones, until there are no more.
func (p *planner) spread() {
	for grown := true; grown; {
		grown = false
		for _, d := range p.defs {
			_, stored := p.values[d.Name]
			for _, with := range p.madeWith(d) {
				_, has := p.values[with]
				switch {
				case p.chosen[with] && stored && !p.chosen[d.Name]:
					p.chosen[d.Name], grown = true, true
				case p.chosen[d.Name] && !has && !p.chosen[with] && p.definition(with) != nil:
					p.chosen[with], grown = true, true
				}
			}
		}
	}
}

// visit appends a definition to the order, after those that it depends on. path
// has the definitions that led to it.
func (p *planner) visit(d Definition, path []string) error {
	path = append(path, d.Name)
	switch p.state[d.Name] {
	case 1:
		return fmt.Errorf("cannot rotate %q: these variables depend on each other: %s", d.Name, strings.Join(path, " <- "))
	case 2:
		return nil
	}
	p.state[d.Name] = 1
	for _, with := range p.madeWith(d) {
		if next := p.definition(with); next != nil && p.chosen[with] {
			if err := p.visit(*next, path); err != nil {
				return err
			}
		}
	}
	p.state[d.Name] = 2
	p.order = append(p.order, d.Name)
	return nil
}
