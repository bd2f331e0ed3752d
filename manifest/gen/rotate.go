package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rotate plans a rotation: it returns the variables to make anew, each after
// what it is made with: the CA that signs it, and those that uses names, whose
// values stand in its options. These are the named ones, the stored ones made
// with one of them, those made with these in turn, and what one of them is made
// with and values does not hold. The values are the stored ones by name;
// nothing is changed. An error tells of names that no definition has, and of
// variables that need each other.
func Rotate(defs []Definition, uses map[string][]string, values map[string]any, names []string) ([]string, error) {
	p := planner{index: map[string]int{}, uses: uses, values: values, chosen: map[string]bool{}, state: map[string]int{}}
	for _, d := range defs {
		// The first of two definitions of one name is the one that counts.
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
		return nil, fmt.Errorf("cannot rotate %s: the manifest defines no such variable with a type; it defines %s", strings.Join(unknown, ", "), p.names())
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

// ExpiringWithin names the variables whose stored certificate has expired, or
// will have before the duration is over, in the order of the definitions.
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
	state  map[string]int // of a visit: 0 not begun, 1 begun, 2 done
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

// madeWith names the variables that a definition's value is made with.
func (p *planner) madeWith(d Definition) []string {
	return slices.Concat(Requires(d), p.uses[d.Name])
}

// spread chooses what hangs on the chosen ones until nothing is added.
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

// visit puts a definition into the order, what it is made with before it; path is what led
// to it.
func (p *planner) visit(d Definition, path []string) error {
	path = append(path, d.Name)
	switch p.state[d.Name] {
	case 1:
		return fmt.Errorf("cannot rotate %q: these variables are made with each other: %s", d.Name, strings.Join(path, " <- "))
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
