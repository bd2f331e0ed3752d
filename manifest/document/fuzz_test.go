package document

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml2 "go.yaml.in/yaml/v2"
)

// seeds adds every manifest of testdata, and YAML that is hard to read.
func seeds(f *testing.F) {
	for _, pattern := range []string{"../testdata/*.yml", "../testdata/*/*.yml", "testdata/*/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, s := range hardDocuments() {
		f.Add([]byte(s))
	}
}

// FuzzInputs searches for operations, variables and vars stores with which an evaluation
// panics, hangs, or reports a problem without a position.
func FuzzInputs(f *testing.F) {
	for _, s := range [][3]string{
		{"- {type: replace, path: /a/-, value: ((b))}", "b: 1", "c: {d: e}"},
		{"- {type: remove, path: /a?/b=c:next}\n- {type: test, path: /a, absent: true}", "b: {c: [d]}", ""},
		{"- {type: replace, path: '/a/0:before', value: &x [*x]}", "a: &a {<<: *a}", "{"},
		{"--- {}", "- 1", "x: !!binary MQ=="},
		{"- {type: replace, path: 1, value: {((a.b)): ((!c))}}", "? {a: b}\n: c", "a: ((a))"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, ops, vars, store string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"m.yml": "a: [((b)), {b: c}]\nvariables: [{name: c, type: password}]\n", "ops.yml": ops, "vars.yml": vars, "store.yml": store} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Evaluate(t.Context(), filepath.Join(dir, "m.yml"), Options{
			Ops: []string{filepath.Join(dir, "ops.yml")}, VarsFiles: []string{filepath.Join(dir, "vars.yml")},
			VarsStore: filepath.Join(dir, "store.yml"), Generate: Plan,
		})
		if err == nil {
			return
		}
		problems, ok := err.(*Problems)
		if !ok {
			t.Fatalf("unexpected kind of error: %v", err)
		}
		for _, p := range *problems {
			if p.Message == "" || strings.ContainsAny(p.String(), "\r\n") || strings.Contains(p.Message, "%!") {
				t.Fatalf("bad problem: %q", p)
			}
		}
	})
}

// FuzzYAML compares with yaml.v2, which create-env uses.
func FuzzYAML(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		compareWithYAML2(t, data)
	})
}

var semanticError = regexp.MustCompile(`anchor|map key|cannot decode|map merge|base64`)

// compareWithYAML2 checks that the document has the same values as in yaml.v2.
func compareWithYAML2(t interface {
	Helper()
	Skip(...any)
	Fatalf(string, ...any)
}, data []byte) {
	t.Helper()
	if (bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))) && bytes.IndexByte(data, '!') >= 0 {
		t.Skip("the tag ! is not found in UTF-16")
	}
	var want any
	errWant := yaml2.Unmarshal(data, &want)
	d := parse("m.yml", data)
	if !d.problems.failed() {
		switch {
		case errWant != nil && semanticError.MatchString(errWant.Error()):
			t.Fatalf("accepted, but yaml.v2 says: %v", errWant)
		case errWant != nil:
			return // yaml.v3 allows tabs in more places
		}
		a, errA := yaml2.Marshal(d.root.generic())
		b, errB := yaml2.Marshal(want)
		if string(a) != string(b) || (errA == nil) != (errB == nil) {
			t.Fatalf("differs from yaml.v2:\n%s\n---\n%s", a, b)
		}
		return
	}
	// yaml.v3 also reads what follows the first document.
	decoder := yaml2.NewDecoder(bytes.NewReader(data))
	for errWant == nil {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return
		}
	}
	if errWant == nil && !strings.Contains(d.problems.Error(), "nested") && !strings.Contains(d.problems.Error(), "too much of it") {
		t.Fatalf("refused, but yaml.v2 accepts it: %v", d.problems)
	}
}
