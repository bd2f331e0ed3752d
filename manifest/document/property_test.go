package document

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml2 "go.yaml.in/yaml/v2"
	"pgregory.net/rapid"

	"bootstrap/internal/keyorder"
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

// paths draws paths of which many exist in such a document.
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

// show returns a tree as YAML in create-env's form.
func show(t interface{ Fatal(...any) }, n *node) string {
	data, err := Value{node: n}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Find returns the value that replace has put at a path, unless the path adds an item, or
// selects another value after the change.
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
		// Change the path so that it finds the new value: after a replace, modifiers at
		// the end and - select another place, and a match selects nothing if the matched
		// value was replaced.
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

// After a remove, a key does not exist any more, or a list is one item shorter.
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

// The operation test succeeds with the value that find returns, and changes nothing.
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

// A document without variables is not changed by given values.
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

// The value of a variable is filled in unchanged, at any depth, as a whole and inside of
// text.
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
		d, err := Evaluate(t.Context(), "-", Options{Stdin: strings.NewReader(whole), VarsFiles: []string{vars}})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/0/k", "/1", "/2"} {
			found, err := d.Find(path)
			if err != nil || show(t, found.node) != show(t, value) {
				t.Fatalf("%s: %v, %v", path, found, err)
			}
		}
		inner, ok := embedded(value)
		d, err = Evaluate(t.Context(), "-", Options{Stdin: strings.NewReader(fmt.Sprintf("<((%s))> ((%s)).", name, name)), VarsFiles: []string{vars}})
		if ok != (err == nil) {
			t.Fatalf("within text: %v", err)
		}
		if err == nil {
			if text := d.top().Scalar(); text != "<"+inner+"> "+inner+"." {
				t.Fatalf("within text: %q", text)
			}
		}
	})
}

// Scalars with tags, anchors and comments have the same values as in yaml.v2, wherever
// they are.
func TestTagsMeanWhatTheyMeanToYAML2(t *testing.T) {
	t.Parallel()
	properties := rapid.SampledFrom([]string{"", "! ", "! ", "!!str ", "!!int ", "!!null ", "!!bool ", "!!float ", "!!binary ", "!!timestamp ", "!x ", "!<!> ", "!<x> ",
		"&a ", "&b ! ", "! &c ", "&d\n    ! ", "&e # no\n    ! ", "&f\t!\t", "&! ", "&g !!int "})
	scalar := rapid.SampledFrom([]string{"", "5", "0755", "1_000", "1.5", "yes", "~", "null", ".inf", "x", "ö", "2001-01-01", "<<", "#c", "x#c", "!", "a!b", "!x", "'5'", `"~"`, "'!'", "*a", "|\n    5\n", "x\n    ! y", "aGk="})
	value := rapid.Custom(func(t *rapid.T) string {
		before, text := properties.Draw(t, "properties"), scalar.Draw(t, "scalar")
		if before != "" && strings.HasPrefix(text, "!") {
			return before // a value with two tags is invalid
		}
		return before + text
	})
	rapid.Check(t, func(t *rapid.T) {
		var doc strings.Builder
		doc.WriteString(rapid.SampledFrom([]string{"", "", "\ufeff", "--- # !\n", "é: ! \u00a0\n", "# !\r\n", "%YAML 1.1\n---\n"}).Draw(t, "begin"))
		for range rapid.IntRange(1, 3).Draw(t, "entries") {
			switch rapid.IntRange(0, 4).Draw(t, "form") {
			case 0:
				fmt.Fprintf(&doc, "k: %s\n", value.Draw(t, "value"))
			case 1:
				fmt.Fprintf(&doc, "%s: v\r\n", value.Draw(t, "key"))
			case 2:
				fmt.Fprintf(&doc, "l:\n  - %s\n  - é: %s\n", value.Draw(t, "first"), value.Draw(t, "second"))
			case 3:
				fmt.Fprintf(&doc, "f: [é, %s, %s ]\n", value.Draw(t, "first"), value.Draw(t, "second"))
			case 4:
				fmt.Fprintf(&doc, "m: {é: %s , %s : v}\r", value.Draw(t, "first"), value.Draw(t, "second"))
			}
		}
		compareWithYAML2(t, []byte(doc.String()))
	})
}

// Two keys are written in the order of yaml.v2; for more keys, its order is inconsistent.
func TestOrderOfKeysIsThatOfYAML2(t *testing.T) {
	t.Parallel()
	keys := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]any{nil, true, false, 0, 1, -1, 1 << 60, 1<<60 + 1, uint64(1 << 63), uint64(1<<63 + 1), 0.0, 1.0, 1.5, -2.5, 1e300, "", "ä", "Ä1", "٣"}), func(k any) any { return k }),
		rapid.Map(rapid.StringMatching(`[0-9a-c._\-A ]{0,6}`), func(k string) any { return k }),
		rapid.Map(rapid.StringMatching(`[0-9]{1,40}[ab]?[0-9]{0,2}`), func(k string) any { return k }),
		rapid.Map(rapid.StringMatching(`1[0-2]{1,4}[ab]?`), func(k string) any { return k }),
		rapid.Map(rapid.String(), func(k string) any { return k }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		want, err := yaml2.Marshal(map[any]any{a: 1, b: 1})
		if a == b || err != nil || keyorder.Compare(a, b) == 0 {
			return
		}
		n := &node{kind: mapKind}
		for _, key := range []any{a, b} {
			n.entries = append(n.entries, entry{key: key, value: &node{value: 1}})
		}
		if got := show(t, n); got != string(want) {
			t.Fatalf("got\n%s\nyaml.v2 writes\n%s", got, want)
		}
	})
}

// The same document is always written in the same way, even if yaml.v2 writes its keys in
// a random order.
func TestOrderOfKeysIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	doc := "{"
	for _, key := range []string{"9", "10a", "9a", "2a", "1e3", "12e4", "a1", "1-2", "0x1F", "007", "1.10", "1.9", "6e1", "00e1", "5e999", "~", "true"} {
		doc += key + ": v, "
	}
	first, err := evaluated(t, doc+"}")
	for range 50 {
		if again, err2 := evaluated(t, doc+"}"); err != nil || err2 != nil || again != first {
			t.Fatalf("%v, %v: once\n%s\nthen\n%s", err, err2, first, again)
		}
	}
}

// A value of --var is the same as in create-env: a text as it is written, without one
// pair of quotes; any other value as yaml.v2 reads it.
func TestValuesOfVarAreThoseOfCreateEnv(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"#", " #", "!", "! ", "!!str ", "!!int ", "!x ", "'", `"`, "&a ", "*a", "~", "yes", "0755", "1.5", "- ", "a: ", "{", "}", "[", "]", ", ", "\n", "|\n ", "<<", "2001-01-01", "x", "é", " ", ".5", "5"}),
		rapid.StringN(0, 3, 6),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "pieces"), "")
		var want any
		errWant := yaml2.Unmarshal([]byte(text), &want)
		d, vars := &document{}, variables{}
		err := d.addValue(vars, 0, "x="+text)
		switch {
		case text == "" || err != nil && errWant != nil:
			return
		case err == nil && errWant != nil:
			if semanticError.MatchString(errWant.Error()) {
				t.Fatalf("accepted, but yaml.v2 says: %v", errWant)
			}
			return // yaml.v3 allows tabs in more places
		case err != nil:
			decoder := yaml2.NewDecoder(strings.NewReader(text))
			for {
				// yaml.v3 also reads what follows the first document.
				var document any
				if errNext := decoder.Decode(&document); errors.Is(errNext, io.EOF) {
					t.Fatalf("refused: %v", err)
				} else if errNext != nil {
					return
				}
			}
		}
		if _, isText := want.(string); isText {
			want = text
			if first, last := text[0], text[len(text)-1]; first == last && (first == '"' || first == '\'') {
				want = text[1 : len(text)-1]
			}
		}
		a, _ := yaml2.Marshal(want)
		if b := show(t, vars["x"].value); string(a) != b {
			t.Fatalf("got %q, create-env takes %q", b, a)
		}
	})
}
