// Package compilation decides in which order several VMs compile packages.
package compilation

import "slices"

// Package is a package to compile.
type Package struct {
	ID    string
	Needs []string // ids of the packages with which it is compiled; those that the graph lacks exist already
	// Source is the content from which it is compiled. Trusts are the sources of packages
	// that a VM may have compiled before, because all users of this package compile them,
	// too: a packaging script can change what is compiled after it.
	Source string
	Trusts map[string]bool
}

// Graph has the packages that are not compiled yet. Its methods must not be called at the
// same time.
type Graph struct {
	list   []Package
	index  map[string]int
	states map[string]status
	depth  map[string]int // how many packages wait for it, one after another
}

// status is the status of a package.
type status int

const (
	waiting status = iota
	started
	done
	dropped
)

// New returns the graph of packages, which lists each one after those that it needs.
func New(list []Package) *Graph {
	g := &Graph{list: list, index: map[string]int{}, states: map[string]status{}, depth: map[string]int{}}
	for i, p := range list {
		g.index[p.ID], g.states[p.ID] = i, waiting
	}
	for _, p := range slices.Backward(list) {
		for _, need := range p.Needs {
			g.depth[need] = max(g.depth[need], g.depth[p.ID]+1)
		}
	}
	return g
}

// Next returns the package that a VM compiles next: the one for which most others wait, one
// after another. after are the sources of the packages that the VM has compiled. fresh is
// true if a new VM must compile it. ok is false if no package is ready.
func (g *Graph) Next(after []string) (id string, fresh, ok bool) {
	best := -1
	for i, p := range g.list {
		if g.states[p.ID] != waiting || !g.ready(p) {
			continue
		}
		foreign := slices.ContainsFunc(after, func(source string) bool { return !p.Trusts[source] })
		if best >= 0 && (foreign && !fresh || foreign == fresh && g.depth[p.ID] <= g.depth[g.list[best].ID]) {
			continue
		}
		best, fresh = i, foreign
	}
	if best < 0 {
		return "", false, false
	}
	id = g.list[best].ID
	g.states[id] = started
	return id, fresh, true
}

// ready reports whether everything that the package needs is compiled.
func (g *Graph) ready(p Package) bool {
	return !slices.ContainsFunc(p.Needs, func(need string) bool {
		_, part := g.index[need]
		return part && g.states[need] != done
	})
}

// Done records that a package is compiled.
func (g *Graph) Done(id string) { g.states[id] = done }

// Drop records that a package is not compiled, and that all packages that need it are not,
// either. It returns the ids of all.
func (g *Graph) Drop(id string) []string {
	g.states[id] = dropped
	list := []string{id}
	for _, p := range g.list {
		if g.states[p.ID] == waiting && slices.ContainsFunc(p.Needs, func(need string) bool { return slices.Contains(list, need) }) {
			g.states[p.ID] = dropped
			list = append(list, p.ID)
		}
	}
	return list
}

// Waits reports whether a package is left that no VM compiles yet.
func (g *Graph) Waits() bool {
	return slices.ContainsFunc(g.list, func(p Package) bool { return g.states[p.ID] == waiting })
}

// Again puts a started package back among those that wait.
func (g *Graph) Again(id string) { g.states[id] = waiting }
