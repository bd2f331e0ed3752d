package compilation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// graph makes a graph from a text such as "a, b: a, c: a b": each package with what it
// needs. Every package trusts those of the same text, except those after an exclamation
// mark: "c: a !b".
func graph(text string) *Graph {
	var list []Package
	for _, item := range strings.Split(text, ", ") {
		id, needs, _ := strings.Cut(item, ":")
		list = append(list, Package{ID: id, Source: id, Needs: slices.DeleteFunc(strings.Fields(needs), func(n string) bool { return n[0] == '!' }), Trusts: map[string]bool{}})
	}
	for i, item := range strings.Split(text, ", ") {
		for _, p := range list {
			list[i].Trusts[p.ID] = !strings.Contains(item, "!"+p.ID)
		}
	}
	return New(list)
}

// Packages are compiled after those that they need; the longest chain goes first.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, graph string
		width       int
		want        string // the packages of each round
	}{
		{"independent", "a, b, c", 2, "a b, c"},
		{"a chain", "a, b: a, c: b", 3, "a, b, c"},
		{"the longest chain first", "x, y, a, b: a, c: b", 1, "a, b, x, y, c"},
		{"a diamond", "a, b: a, c: a, d: b c", 2, "a, b c, d"},
		{"needs that exist", "b: zlib, c: b", 1, "b, c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := graph(c.graph)
			var rounds []string
			for g.Waits() {
				var round []string
				for range c.width {
					if id, _, ok := g.Next(nil); ok {
						round = append(round, id)
					}
				}
				if round == nil {
					t.Fatal("no package is ready")
				}
				for _, id := range round {
					g.Done(id)
				}
				rounds = append(rounds, strings.Join(round, " "))
			}
			if got := strings.Join(rounds, ", "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A VM does not compile a package after one that not all users of the package compile. It
// gets another one, or must be a new one.
func TestTrust(t *testing.T) {
	t.Parallel()
	g := graph("a, b: !a, c")
	var got []string
	var after []string
	for range 3 {
		id, fresh, ok := g.Next(after)
		got = append(got, fmt.Sprintf("%s %v %v", id, fresh, ok))
		after = append(after, id)
	}
	if want := []string{"a false true", "c false true", "b true true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A package that is dropped takes those with it that need it; one that is started again
// does not.
func TestDrop(t *testing.T) {
	t.Parallel()
	g := graph("a, b: a, c: b, d")
	id, _, _ := g.Next(nil)
	g.Again(id)
	if id, _, _ = g.Next(nil); id != "a" {
		t.Fatalf("got %s", id)
	}
	if got := g.Drop("a"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("dropped %q", got)
	}
	if id, _, _ := g.Next(nil); id != "d" || g.Waits() {
		t.Errorf("got %s, waits %v", id, g.Waits())
	}
}
