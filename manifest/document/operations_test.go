package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// YAML returns the document in the form in which create-env writes it.
func (d *Document) YAML() ([]byte, error) { return d.top().YAML() }

// generic returns the tree as yaml.v2 decodes it into an empty interface.
func (n *node) generic() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.generic()
		}
		return list
	case mapKind:
		m := make(map[any]any, len(n.entries))
		for _, e := range n.entries {
			m[e.key] = e.value.generic()
		}
		return m
	}
	return n.value
}

// evaluated returns the evaluated document as YAML, or the error. inputs are pairs of a
// flag and a text: the content of a file for the flags ops and vars.
func evaluated(t *testing.T, document string, inputs ...string) (string, error) {
	t.Helper()
	d, err := evaluateText(t, document, inputs...)
	if err != nil {
		return "", err
	}
	data, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

func evaluateText(t *testing.T, document string, inputs ...string) (*Document, error) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	opts := Options{Stdin: strings.NewReader(document)}
	for i := 0; i < len(inputs); i += 2 {
		text := inputs[i+1]
		switch inputs[i] {
		case "ops":
			opts.Ops = append(opts.Ops, file("ops.yml", text))
		case "vars":
			opts.VarsFiles = append(opts.VarsFiles, file("vars.yml", text))
		case "store":
			opts.VarsStore = file("store.yml", text)
		case "file":
			opts.VarFiles = append(opts.VarFiles, text+"="+file("file.txt", "line one\nline two\n"))
		case "var":
			opts.Vars = append(opts.Vars, text)
		case "env":
			opts.VarsEnv, opts.Environ = []string{"PRE"}, append(opts.Environ, text)
		}
	}
	return Evaluate(t.Context(), "-", opts)
}

// operationCase is a document, an operation on it, and the result: "! text" is
// an error with that text.
type operationCase struct{ document, ops, want string }

func replacements() []operationCase {
	return []operationCase{
		{"a: 1", "replace /a 2", "{a: 2}"},
		{"a: 1", "replace /b? 2", "{a: 1, b: 2}"},
		{"a: 1", `replace "" {b: 2}`, "{b: 2}"},
		{"a: 1", "replace / 2", `! the top of the document has no key ""`},
		{"a: 1", "replace /b 2", `! has no key "b"; it has "a"`},
		{"a: 1", "replace /b?/c/d 2", "{a: 1, b: {c: {d: 2}}}"},
		{"a: 1", "replace /b?/- 2", "{a: 1, b: [2]}"},
		{"a: 1", "replace /b?/name=x/c 2", "{a: 1, b: [{c: 2, name: x}]}"},
		{"a: 1", "replace /b?/name=x 2", "{a: 1, b: [2]}"},
		{"a: 1", "replace /b?/0 2", "! cannot be created for an index"},
		{"a: 1", "replace /a/b 2", "! /a is a number, where a map is needed"},
		{"a: 1", "replace /a?/b 2", "! /a? is a number"},
		{"a: ~", "replace /a?/b 2", "! /a? is null"},
		{"[1, 2, 3]", "replace /0 9", "[9, 2, 3]"},
		{"[1, 2, 3]", "replace /-1 9", "[1, 2, 9]"},
		{"[1, 2, 3]", "replace /+1 9", "[1, 9, 3]"},
		{"[1, 2, 3]", "replace /3 9", "! has no item 3; it has 3 items"},
		{"[1, 2, 3]", "replace /-4 9", "! has no item -4"},
		{"[1, 2, 3]", "replace /- 9", "[1, 2, 3, 9]"},
		{"[1, 2, 3]", "replace /0:before 9", "[9, 1, 2, 3]"},
		{"[1, 2, 3]", "replace /0:after 9", "[1, 9, 2, 3]"},
		{"[1, 2, 3]", "replace /-1:after 9", "[1, 2, 3, 9]"},
		{"[1, 2, 3]", "replace /0:next 9", "[1, 9, 3]"},
		{"[1, 2, 3]", "replace /0:prev 9", "[1, 2, 9]"},
		{"[1, 2, 3]", "replace /1:prev:before 9", "[9, 1, 2, 3]"},
		{"[1, 2, 3]", "replace /1:before:prev 9", "! nothing may follow :before or :after"},
		{"[1, 2, 3]", "replace /0:other 9", `! the modifier ":other" is unknown`},
		{"[1, 2, 3]", "replace /-:before 9", `! nothing may follow "-"`},
		{"[{name: a}, {name: b}]", "replace /name=b/x? 1", "[{name: a}, {name: b, x: 1}]"},
		{"[{name: a}, {name: b}]", "replace /name=b 1", "[{name: a}, 1]"},
		{"[{name: a}, {name: b}]", "replace /name=a:next 1", "[{name: a}, 1]"},
		{"[{name: a}, {name: b}]", "replace /name=b:before 1", "[{name: a}, 1, {name: b}]"},
		{"[{name: a}, [1]]", "replace /name=a:next/- 2", "[{name: a}, [1, 2]]"},
		{"[{name: a}, {name: a}]", "replace /name=a 1", "! has 2 items whose name is"},
		{"[{name: 5}, 6]", "replace /name=5 1", `! no item whose name is "5"; none of its 2 items has the key "name" as text; YAML reads one as a number`},
		{"[{name: bosh}]", "replace /name=bohs 1", `! it has "bosh"; did you mean "bosh"?`},
		{"[{password: sesame}]", "replace /password=x 1", `! 1 item have other values`},
		{"{a: {b: 1}}", "replace /a/name=x 1", "! /a is a map, where a list is needed"},
		{"{5: 1}", "replace /5 1", "! is a map, where a list is needed"},
		{"{true: 1}", "replace /true 1", "! YAML reads its key true as the boolean true"},
		{`{"a/b": 1, "c~d": 2, "e:f": 3}`, "replace /a~1b 9", `{"a/b": 9, "c~d": 2, "e:f": 3}`},
		{`{"a/b": 1, "c~d": 2, "e:f": 3}`, "replace /c~0d 9", `{"a/b": 1, "c~d": 9, "e:f": 3}`},
		{`{"a/b": 1, "c~d": 2, "e:f": 3}`, "replace /e~7f 9", `{"a/b": 1, "c~d": 2, "e:f": 9}`},
		{`{"-": {a: 1}}`, "replace /-/a 2", `{"-": {a: 2}}`},
		{"a: 1", "replace /a ~", "! the value is null"},
		{"a: 1", "replace a 2", `! a path must begin with "/"`},
		{"a: 1", "replace /a:next 2", "! may only follow an index or a match"},
		{"a: 1", "replace /0:before/a 2", "! are only allowed at its end"},
	}
}

func removalsAndTests() []operationCase {
	return []operationCase{
		{"{a: 1, b: 2}", "remove /a", "{b: 2}"},
		{"a: 1", "remove /b", `! has no key "b"`},
		{"a: 1", "remove /b?", "{a: 1}"},
		{"a: 1", "remove /b?/c/d", "{a: 1}"},
		{"[1, 2, 3]", "remove /1", "[1, 3]"},
		{"[1, 2, 3]", "remove /-1", "[1, 2]"},
		{"[1, 2, 3]", "remove /0:next", "[1, 3]"},
		{"[{name: a}, {name: b}]", "remove /name=a", "[{name: b}]"},
		{"[{name: a}]", "remove /name=b", "! has no item whose name is"},
		{"[{name: a}]", "remove /name=b?", "[{name: a}]"},
		{"[{name: a}]", "remove /name=b?/c", "[{name: a}]"},
		{"[1]", "remove /-", "! there is nothing to remove"},
		{"[1]", "remove /0:after", "! only for operations of the type replace"},
		{"[1]", `remove ""`, "! the whole document cannot be removed"},
		{"a: 1", "remove /a 2", "! must not have a value"},
		{"[{name: a}]", "remove /name=b?:before", "[{name: a}]"},
		{"[{name: a}]", "remove /name=b?:after", "[{name: a}]"},
		{"[{name: a}]", "remove /name=a?:after", "! :before and :after are only for a new item"},
		{"a: 1", "remove /b?/-", "{a: 1}"},
		{"a: 1", "remove /b?/0:after", "{a: 1}"},
		{"a: [1]", "remove /a?/-", `! "-" means a new item at the end`},
		{"[{name: a}]", "remove /name=b?/c/-", "[{name: a}]"},

		{"a: {b: [1, x]}", "test /a {b: [1, x]}", "{a: {b: [1, x]}}"},
		{"a: {b: [1, x]}", "test /a {b: [x, 1]}", "! the value is not the expected one"},
		{"a: 1", `test /a "1"`, "! a number, not text"},
		{"a: {b: 1}", "test /a {c: 1}", `! a map without the key "c"`},
		{"a: 1.0", "test /a 1", "{a: 1}"},
		{"a: 1", "test /b ABSENT", "{a: 1}"},
		{"a: 1", "test /a ABSENT", "! it exists, but must not"},
		{"a: 1", "test /b/c ABSENT", `! has no key "b"`},
		{"[1]", "test /1 ABSENT", "[1]"},
		{"[{name: a}]", "test /name=b ABSENT", "[{name: a}]"},
		{"[{name: a}, {name: a}]", "test /name=a ABSENT", "! has 2 items"},
		{"[{name: a}]", "test /name=b?:before {name: b}", "[{name: a}]"},
		{"[1]", "test /- 1", "! there is nothing to test"},
		{"a: 1", "test /a", "! must have a value, or absent: true"},
	}
}

// The results are those of go-patch, the library with which create-env applies
// operations.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, c := range append(replacements(), removalsAndTests()...) {
		kind, rest, _ := strings.Cut(c.ops, " ")
		path, value, given := strings.Cut(rest, " ")
		ops := "- type: " + kind + "\n  path: " + path + "\n"
		switch {
		case value == "ABSENT":
			ops += "  absent: true\n"
		case given:
			ops += "  value: " + value + "\n"
		}
		got, err := evaluated(t, c.document, "ops", ops)
		if message, ok := strings.CutPrefix(c.want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%s, %s: got %q, error %v; want an error with %q", c.document, c.ops, got, err, message)
			}
			continue
		}
		want, errWant := evaluated(t, c.want)
		if err != nil || errWant != nil || got != want {
			t.Errorf("%s, %s: got %q, error %v; want %q", c.document, c.ops, got, err, want)
		}
	}
}

// One report has all operations that fail, except those that fail only because of them.
func TestOperationsThatFailTogether(t *testing.T) {
	t.Parallel()
	_, err := evaluated(t, "{a: {x: 1}, l: []}", "ops", `
- {type: replace, path: /b/c, value: {d: 1}}
- {type: replace, path: /b/c/d, value: 2}
- {type: replace, path: "/a/y?", value: 2}
- {type: remove, path: /later/sub}
- {type: replace, path: "/later?/sub", value: 2}
- {type: replce, path: /a, value: 2}
`)
	// A wrong type is already reported when the file is read.
	if err == nil || !strings.Contains(err.Error(), `operation [5]: the type must be replace, remove or test, but is "replce"; did you mean "replace"?`) {
		t.Fatal(err)
	}
	_, err = evaluated(t, "{a: {x: 1}, l: []}", "ops", `
- {type: replace, path: /b/c, value: {d: 1}}
- {type: replace, path: /b/c/d, value: 2}
- {type: replace, path: "/a/y?", value: 2}
- {type: remove, path: /later/sub}
- {type: replace, path: "/later?/sub", value: 2}
`)
	if err == nil || strings.Count(err.Error(), "\n") != 1 ||
		!strings.Contains(err.Error(), `ops.yml:2:25: operation [0]: cannot replace /b/c: the top of the document has no key "b"`) ||
		!strings.Contains(err.Error(), "ops.yml:5:24: operation [3]: cannot remove /later/sub") ||
		!strings.Contains(err.Error(), "a later operation adds it") {
		t.Fatal(err)
	}
}
