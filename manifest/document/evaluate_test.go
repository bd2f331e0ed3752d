package document

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzPath searches for paths with which parsing or finding panics, or finds another
// value.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"", "/", "/a?/b=c:next:after/-", "/~1~0~7", "/-1:prev", "/a:b", "//", "/?", "/=", "/a=?", "/99999999999999999999", "/a\n\x1b/\r=\n"} {
		f.Add(s)
	}
	tree := parse("m.yml", []byte(`{"a": [{"b": "c"}, 1, [2]], "": {"x?": 1}, "a/b:c~": 5}`)).root
	f.Fuzz(func(t *testing.T, text string) {
		path, err := parsePath(text)
		if err != nil {
			return
		}
		if text == "" != (len(path.tokens) == 0) || path.tokens != nil && path.tokens[len(path.tokens)-1].end != len(text) {
			t.Fatalf("%q became %+v", text, path)
		}
		found, err := walk{path: path}.find(tree)
		if (found == nil) == (err == nil) {
			t.Fatalf("%v and %v", found, err)
		}
		if text == "" {
			return
		}
		d := &document{root: tree.clone()}
		for _, kind := range []string{"replace", "remove", "test"} {
			op := operation{kind: kind, path: path, value: &node{value: "x"}, absent: kind == "test"}
			if err := op.apply(d); err != nil && (err.Error() == "" || strings.ContainsAny(err.Error(), "\r\n")) {
				t.Fatalf("bad error: %q", err)
			}
		}
	})
}

// FuzzInterpolate searches for documents, operations and variables with which Evaluate
// panics, hangs, or fails without a report.
func FuzzInterpolate(f *testing.F) {
	f.Add("a: ((x)) b\n", "- {type: replace, path: /a, value: ((y))}\n", "x: {a: 1}\ny: ((x))\nx.b: 2\n", "x.c=5")
	f.Add("((x)): {((!x.0)): (( /y ))}\nvariables: [{name: x, type: password}]\n", "[]", "x: [5]\n", "/y=#")
	f.Add("a: 1", `- {type: replace, path: "/a\nb", value: 1}`, `"x\ny": 1`, "x\n=1")
	f.Add("variables: [{name: x, type: certificate, options: {ca: ((x.ca))}}]", "- {}", "", `é="`)
	for _, s := range hardDocuments() {
		f.Add(s, s, s, s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, document, ops, vars, value string) {
		file := func(name, text string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		opts := Options{
			Stdin: strings.NewReader(document), Vars: []string{value}, Generate: Plan, VarsStore: filepath.Join(dir, "absent.yml"),
			Ops: []string{file("ops.yml", ops)}, VarsFiles: []string{file("vars.yml", vars)},
		}
		d, err := Evaluate(t.Context(), "-", opts)
		var problems *Problems
		switch {
		case errors.As(err, &problems):
			for _, p := range *problems {
				if p.Message == "" || strings.ContainsAny(p.String(), "\r\n") || len(p.Message) > 2500 {
					t.Fatalf("bad problem: %q", p.String())
				}
			}
		case err == nil:
			first, err := d.YAML()
			if err != nil {
				t.Fatal(err)
			}
			// create-env reads the same tree from it.
			compareWithYAML2(t, first)
		}
	})
}

// Small files that would expand to huge documents are refused quickly.
func TestBombs(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	deep := strings.Repeat("/a?", 400)
	for name, c := range map[string]struct{ document, ops, vars, want string }{
		"a large value used often": {document: "[" + strings.Repeat("((v)),", 100_000) + "]", vars: "v: " + big, want: "larger than 64 MiB"},
		"within text":              {document: "a: " + strings.Repeat("((v))", 1000), vars: "v: " + big, want: "larger than 64 MiB"},
		"a path of a million keys": {ops: "- {type: replace, path: \"" + strings.Repeat("/a?", 500_000) + "\", value: 1}", want: "more than 500 parts"},
		"operations that nest": {document: "a: 1", ops: fmt.Sprintf("- {type: replace, path: \"%s\", value: {}}\n- {type: replace, path: \"%s%s\", value: {b: 1}}\n",
			strings.ReplaceAll(deep, "/a", "/b"), strings.ReplaceAll(deep, "/a", "/b"), strings.Repeat("/a?", 90)), want: ""},
		"operations that nest deeper": {document: "b: {}", ops: "- {type: replace, path: \"/b" + deep + "\", value: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}\n", want: "nested more than 500"},
		"a name with many dots":       {vars: "? " + strings.Repeat("a.", 500_000) + "a\n: 1", want: "more than 500 parts"},
		"aliases in an operation": {ops: "- &a {type: replace, path: /x, value: [1,1,1,1,1,1,1,1,1,1]}\n- &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n- &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"- &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n- &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n- [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", want: "repeat too much of it"},
	} {
		start := time.Now()
		_, err := evaluated(t, c.document, "ops", c.ops, "vars", c.vars)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || err != nil && len(err.Error()) > 4000 {
			t.Errorf("%s: %.300v", name, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// large returns a manifest of about 10,000 lines, and 500 operations on it.
func large() (document, ops string) {
	var b, o strings.Builder
	b.WriteString("name: large\ngroups:\n")
	for i := range 500 {
		fmt.Fprintf(&b, "- name: group-%d\n  instances: 1\n  networks:\n  - name: default\n    static_ips: [10.0.%d.%d]\n  properties:\n", i, i/250, i%250)
		for j := range 14 {
			fmt.Fprintf(&b, "    property_%d: \"some value ((name)) of property %d\"\n", j, j)
		}
		switch i % 5 {
		case 0:
			fmt.Fprintf(&o, "- type: remove\n  path: /groups/name=group-%d/properties/property_3\n", i)
		case 1:
			fmt.Fprintf(&o, "- type: replace\n  path: /groups/name=group-%d/networks/-\n  value: {name: other}\n", i)
		case 2:
			fmt.Fprintf(&o, "- type: replace\n  path: /groups/%d:before\n  value: {name: new-%d, properties: {a: ((name)), b: [1, 2, 3]}}\n", i, i)
		default:
			fmt.Fprintf(&o, "- type: replace\n  path: /groups/name=group-%d/properties/new?/deep/er\n  value: ((name))\n", i)
		}
	}
	return b.String(), o.String()
}

// BenchmarkEvaluate must take at most twice as long as BenchmarkParseTwice.
func BenchmarkEvaluate(b *testing.B) {
	document, ops := large()
	file := filepath.Join(b.TempDir(), "ops.yml")
	if err := os.WriteFile(file, []byte(ops), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(strings.Count(document, "\n")), "lines")
	for b.Loop() {
		if _, err := Evaluate(b.Context(), "-", Options{Stdin: strings.NewReader(document), Ops: []string{file}, Vars: []string{"name=value"}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseTwice is the reference of BenchmarkEvaluate.
func BenchmarkParseTwice(b *testing.B) {
	document, _ := large()
	for b.Loop() {
		for range 2 {
			if d := parse("m.yml", []byte(document)); d.problems.failed() {
				b.Fatal(d.problems)
			}
		}
	}
}
