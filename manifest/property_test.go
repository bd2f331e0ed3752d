package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// trees draws documents in which every list of maps has distinct names.
func trees(depth int) *rapid.Generator[*node] {
	scalars := rapid.Custom(func(t *rapid.T) *node {
		value := rapid.SampledFrom([]any{"", "a", "5", "yes", "~", "x: y", "(( a", "ä\n b", nil, true, 0, -7, 1.5, uint64(1 << 63)}).Draw(t, "scalar")
		return &node{value: value}
	})
	if depth == 0 {
		return scalars
	}
	inner := trees(depth - 1)
	keys := rapid.SampledFrom([]string{"a", "b", "name", "0", "-", "x/y", "x~y", "x:y", "", "ö"})
	lists := rapid.Custom(func(t *rapid.T) *node {
		return &node{kind: listKind, items: rapid.SliceOfN(inner, 0, 4).Draw(t, "items")}
	})
	maps := rapid.Custom(func(t *rapid.T) *node {
		n := &node{kind: mapKind}
		for _, key := range rapid.SliceOfNDistinct(keys, 0, 4, rapid.ID).Draw(t, "keys") {
			n.entries = append(n.entries, entry{key: key, value: inner.Draw(t, "value")})
		}
		return n
	})
	return rapid.OneOf(scalars, lists, maps, maps)
}

// paths draws paths that may lead somewhere in such a document.
func paths() *rapid.Generator[string] {
	piece := rapid.Custom(func(t *rapid.T) string {
		text := rapid.OneOf(
			rapid.SampledFrom([]string{"a", "b", "name", "-", "", "x~1y", "x~0y", "x~7y", "ö", "0", "1", "-1", "name=a", "name=5"}),
			rapid.StringN(0, 4, 8),
		).Draw(t, "piece")
		return text + rapid.SampledFrom([]string{"", "", "", "?", ":prev", ":next", ":before", ":after", ":next:after"}).Draw(t, "end")
	})
	return rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "pieces"), "/")
	})
}

func (n *node) clone() *node { return n.at(Position{}) }

// show returns a tree in the form of create-env.
func show(t interface{ Fatal(...any) }, n *node) string {
	data, err := (&Document{root: n}).YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What replace puts at a path, find finds there; but for paths that put
// something beside, or mean another place afterwards.
func TestWhatIsWrittenIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &document{root: trees(3).Draw(t, "document")}
		value := trees(1).Draw(t, "value")
		path, err := parsePath(paths().Draw(t, "path"))
		if err != nil {
			t.Skip()
		}
		if slices.ContainsFunc(path.tokens, func(t opToken) bool { return t.kind == matchToken && t.optional && t.shift != 0 }) {
			t.Skip("the modifiers of a match that is made do not count")
		}
		before := show(t, d.root)
		op := operation{kind: "replace", path: path, value: value.clone()}
		err = op.apply(d)
		if err != nil {
			if after := show(t, d.root); after != before {
				t.Fatalf("a failed operation (%v) changed\n%s\nto\n%s", err, before, after)
			}
			return
		}
		// Find what was written: modifiers at the end, and - , mean another
		// place once it is there, and a match is lost with what it matched.
		last := &path.tokens[len(path.tokens)-1]
		above := opToken{}
		if n := len(path.tokens); n > 1 {
			above = path.tokens[n-2]
		}
		switch {
		case last.kind == matchToken, above.kind == matchToken && above.key == last.key:
			return
		case last.kind == appendToken:
			last.kind, last.index = indexToken, -1
		case last.insert == insertBefore && last.index+last.shift < 0:
			last.shift--
		case last.insert == insertAfter && last.index+last.shift >= 0:
			last.shift++
		}
		last.insert = overwrite
		found, err := walk{path: path}.find(d.root)
		if err != nil || !equal(found, value) {
			t.Fatalf("found %v, %v instead of\n%s\nin\n%s", found, err, show(t, value), show(t, d.root))
		}
	})
}

// After remove, a key is gone, and a list is one item shorter.
func TestWhatIsRemovedIsGone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &document{root: trees(3).Draw(t, "document")}
		path, err := parsePath(paths().Draw(t, "path"))
		if err != nil {
			t.Skip()
		}
		before, size := show(t, d.root), d.root.bytes()
		found, findErr := walk{path: path}.find(d.root)
		op := operation{kind: "remove", path: path}
		err = op.apply(d)
		after := show(t, d.root)
		switch {
		case err != nil && after != before:
			t.Fatalf("a failed operation (%v) changed\n%s\nto\n%s", err, before, after)
		case err == nil && findErr == nil && d.root.bytes() < size && size-d.root.bytes() < found.bytes():
			t.Fatalf("too little went from\n%s\nto\n%s", before, after)
		case err == nil && findErr != nil && after != before && path.tokens[len(path.tokens)-1].insert == overwrite:
			t.Fatalf("removed what is not there (%v) from\n%s", findErr, before)
		case err != nil && findErr == nil && path.tokens[len(path.tokens)-1].kind != appendToken:
			t.Fatalf("cannot remove what is there: %v\n%s", err, before)
		}
	})
}

// A test of what was found passes, and changes nothing.
func TestTestAgreesWithFind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &document{root: trees(3).Draw(t, "document")}
		path, err := parsePath(paths().Draw(t, "path"))
		if err != nil {
			t.Skip()
		}
		before := show(t, d.root)
		found, err := walk{path: path}.find(d.root)
		if err == nil {
			op := operation{kind: "test", path: path, value: found.clone()}
			if err := op.apply(d); err != nil {
				t.Fatalf("found and not found: %v", err)
			}
		}
		absent := operation{kind: "test", path: path, absent: true}
		if absentErr := absent.apply(d); err == nil && absentErr == nil {
			t.Fatal("both there and absent")
		}
		if after := show(t, d.root); after != before {
			t.Fatalf("a test changed\n%s\nto\n%s", before, after)
		}
	})
}

// A document without variables stays what it is, whatever values are given.
func TestNoVariablesNoChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		root := trees(4).Draw(t, "document")
		before := show(t, root)
		f := filler{document: &document{}, lookup: func(string) *variable { return &variable{value: &node{value: "x"}} },
			missing: func(string, Position, *step) {}}
		root = f.fill(root, nil, 0)
		if after := show(t, root); after != before || len(f.problems) > 0 {
			t.Fatalf("%v\n%s\nbecame\n%s", f.problems, before, after)
		}
	})
}

// A value that is put in place of a variable is the one that was given, at any
// depth, as a whole and within text.
func TestValuesArriveUnchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[-/_a-zA-Zäß0-9]{1,8}`).Draw(t, "name")
		value := trees(2).Draw(t, "value")
		whole := fmt.Sprintf("[{k: ((%s))}, (( %s )), ((!%s))]", name, name, name)
		vars := filepath.Join(dir, "vars.yml")
		if err := os.WriteFile(vars, []byte(show(t, &node{kind: mapKind, entries: []entry{{key: name, value: value}}})), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Evaluate("-", Options{Stdin: strings.NewReader(whole), VarsFiles: []string{vars}})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/0/k", "/1", "/2"} {
			found, err := d.Find(path)
			if err != nil || show(t, found.root) != show(t, value) {
				t.Fatalf("%s: %v, %v", path, found, err)
			}
		}
		inner, ok := embedded(value)
		d, err = Evaluate("-", Options{Stdin: strings.NewReader(fmt.Sprintf("<((%s))> ((%s)).", name, name)), VarsFiles: []string{vars}})
		if ok != (err == nil) {
			t.Fatalf("within text: %v", err)
		}
		if err == nil {
			if text, _ := d.Text(); text != "<"+inner+"> "+inner+"." {
				t.Fatalf("within text: %q", text)
			}
		}
	})
}
