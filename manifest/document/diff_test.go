package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lines returns the differences of two documents as text.
func lines(t *testing.T, before, after string) string {
	t.Helper()
	list, err := Diff([]byte(before), []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range list {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("same ", 30)
	for _, c := range []struct{ name, before, after, want string }{
		{"scalars", "a: 1\nb: x\nc: ~\nd: 5", "a: 2\nb: x\nc: yes\nd: '5'", "~ a: 1 -> 2\n~ c: null -> true\n~ d: 5 -> \"5\"\n"},
		{"keys", "a: 1\nb: {c: 2, name: n}", "b: {c: 2, name: n, d: {e: [x, '']}}\nf.g: h", "- a: 1\n+ b.d: {e: [x, \"\"]}\n+ [\"f.g\"]: h\n"},
		{"spellings of one value", "a: 1.0\nb: yes\nc: 0x10\nd: .nan", "{d: .NaN, c: 16, b: true, a: 1}", ""},
		{"named items", "g: [{name: web, jobs: [{name: page, port: 8787}]}, {name: a.b, x: 1}]",
			"g: [{name: web, jobs: [{name: page, port: 8788}, {name: log, release: l}]}, {name: a.b, x: 2}]",
			"~ g.web.jobs.page.port: 8787 -> 8788\n+ g.web.jobs.log: {name: log, release: l}\n~ g[\"a.b\"].x: 1 -> 2\n"},
		{"named items in another order", "[{name: a, x: 1}, {name: b}, {name: c}]", "[{name: c}, {name: a, x: 2}, {name: d}]",
			"~ a.x: 1 -> 2\n- b: {name: b}\n+ d: {name: d}\n~ (document): [a, c] -> [c, a]\n"},
		{"items with ids", "[{id: 1, x: 1}, {id: 2, x: 1}]", "[{id: 2, x: 1}, {id: 1, x: 5}]", "~ 1.x: 1 -> 5\n~ (document): [\"1\", \"2\"] -> [\"2\", \"1\"]\n"},
		{"names that are no names", "[{name: a, x: 1}, {name: a, x: 2}]", "[{name: a, x: 1}, {name: a, x: 3}]", "~ [1].x: 2 -> 3\n"},
		{"one item", "ips: [10.0.0.3]", "ips: [10.0.0.4]", "~ ips[0]: 10.0.0.3 -> 10.0.0.4\n"},
		{"items by index", "l: [a, b, c, d, e]", "l: [x, a, c, d, f, g]", "~ l[0]: a -> x\n~ l[1]: b -> a\n~ l[4]: e -> f\n+ l[5]: g\n"},
		{"fewer items", "l: [a, b, {c: 1}]", "l: [a]", "- l[1]: b\n- l[2]: {c: 1}\n"},
		{"names in one list only", "l: [{name: a}]", "l: [{name: b}, x]", "~ l[0].name: a -> b\n+ l[1]: x\n"},
		{"keys that become equal", "{1.0: a, 1: b}", "{1.0: a, 1: c}", "~ 1: b -> c\n"},
		{"subnets", "l: [{range: a, dns: [x]}]", "l: [{range: a, dns: [x, z]}]", "+ l[0].dns[1]: z\n"},
		{"kinds", "a: [1]\nb: {c: 1}", "a: {b: 1}\nb: x", "~ a: [1] -> {b: 1}\n~ b: {c: 1} -> x\n"},
		{"variables", "p: ((old))\n((k)): 1\nx: a((b))c", "p: ((new))\n((k)): 2\nx: ((b))", "~ p: ((old)) -> ((new))\n~ ((k)): 1 -> 2\n~ x: a((b))c -> ((b))\n"},
		{"long texts", "a: '" + long + "one'", "a: '" + long + "two'", "~ a: ..." + long[len(long)-33:] + "one -> ..." + long[len(long)-33:] + "two\n"},
		{"many lines", "a: |\n  one\n  two\n", "a: |\n  one\n  three\n", "~ a: \"one\\ntwo\\n\" -> \"one\\nthree\\n\"\n"},
		{"texts that need quotes", "a: x", "a: 'x: y'\nb: '- c'\nd: ' e'\nf: \"\\e[0m\"", "~ a: x -> \"x: y\"\n+ b: \"- c\"\n+ d: \" e\"\n+ f: \"\\x1b[0m\"\n"},
		{"whole documents", "a", "[b]", "~ (document): a -> [b]\n"},
		{"an empty document", "", "a: 1", "+ a: 1\n"},
		{"a long value", "", "a: [" + strings.Repeat("word, ", 40) + "end]", "+ a: [" + strings.Repeat("word, ", 40)[:99] + "...\n"},
	} {
		if got := lines(t, c.before, c.after); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestDiffOfWhatIsNoYAML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, which string }{{"a: [", "a: 1", "old"}, {"a: 1", "\ta: 1", "new"}} {
		if _, err := Diff([]byte(c.before), []byte(c.after)); err == nil || !strings.Contains(err.Error(), "cannot compare the "+c.which+" document") {
			t.Errorf("%q, %q: %v", c.before, c.after, err)
		}
	}
}

// Large lists without a common item are compared, too.
func TestDiffOfLongLists(t *testing.T) {
	t.Parallel()
	long := func(prefix string) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "- %s%d\n", prefix, i)
		}
		return b.String()
	}
	list, err := Diff([]byte(long("a")), []byte(long("b")))
	if err != nil || len(list) != 5000 {
		t.Errorf("%d differences, %v", len(list), err)
	}
}

// A document equals itself and another spelling of it. Values that one comparison adds
// are removed in the opposite comparison.
func TestDiffProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := show(t, trees(4).Draw(t, "one")), show(t, trees(4).Draw(t, "other"))
		if same, err := Diff([]byte(one), []byte(one)); err != nil || len(same) > 0 {
			t.Fatalf("differs from itself: %v, %v\n%s", same, err, one)
		}
		there, err := Diff([]byte(one), []byte(other))
		if err != nil {
			t.Fatal(err)
		}
		if (len(there) == 0) != (one == other) {
			t.Fatalf("%v\n%s---\n%s", there, one, other)
		}
		back, err := Diff([]byte(other), []byte(one))
		if err != nil {
			t.Fatal(err)
		}
		count := func(list []Difference, kind Change) (n int) {
			for _, d := range list {
				if d.Kind == kind {
					n++
				}
				if strings.ContainsAny(d.String(), "\r\n") {
					t.Fatalf("more than one line: %q", d)
				}
			}
			return n
		}
		// Items without names can be matched in more than one way.
		if !strings.Contains(one+other, "- ") && (count(there, Added) != count(back, Removed) || count(there, Changed) != count(back, Changed)) {
			t.Fatalf("%v\n%v\n%s---\n%s", there, back, one, other)
		}
	})
}

// FuzzDiff searches for documents with which Diff panics, or reports differences between
// equal documents.
func FuzzDiff(f *testing.F) {
	f.Add([]byte("[{name: a}, {name: b}]"), []byte("[{name: b}, {name: a}]"))
	for _, pattern := range []string{"../testdata/*.yml", "../testdata/*/*.yml", "testdata/*/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		before := []byte("name: min\nlist: [{name: a, b: 1}, {name: c}]\n")
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(before, data)
			before = data
		}
	}
	for _, s := range hardDocuments() {
		f.Add([]byte("name: min\nlist: [{name: a, b: 1}, {name: c}]\n"), []byte(s))
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		for _, data := range [][]byte{before, after} {
			if same, err := Diff(data, data); err == nil && len(same) > 0 {
				t.Fatalf("differs from itself: %v", same)
			}
		}
		list, err := Diff(before, after)
		if err != nil {
			return
		}
		for _, d := range list {
			if strings.ContainsAny(d.String(), "\r\n") || len(d.Old)+len(d.New) > 3*longestShown {
				t.Fatalf("bad line: %q", d)
			}
		}
	})
}
