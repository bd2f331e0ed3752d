package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// Checks the error for each malformed file, used as each kind of input; see
// testdata/malformed.golden.
func TestMalformedFiles(t *testing.T) {
	t.Parallel()
	places := []string{"manifest", "operations", "variables", "vars store"}
	load := func(place, path, dir string) error {
		m, opts := filepath.Join(dir, "m.yml"), Options{}
		switch place {
		case "manifest":
			m = path
		case "operations":
			opts.Ops = []string{path}
		case "variables":
			opts.VarsFiles = []string{path}
		case "vars store":
			opts.VarsStore, opts.Generate = path, Plan
		}
		_, err := Evaluate(t.Context(), m, opts)
		return err
	}
	var got strings.Builder
	for _, c := range []struct{ what, text string }{
		{"text", "hello\n"}, {"a page of a server", "<!DOCTYPE html>\n<html></html>\n"}, {"a list", "- a\n- b\n"},
		{"a list that does not end", "a: [b,\n"}, {"a list without values", "a: [,]\n"}, {"JSON that does not end", `{"a": [`}, {"a text that does not end", "a: \"b\nc: d\n"},
		{"noise", "\xff\x00\x81"}, {"Latin-1", "a: b\nc: caf\xe9\n"}, {"a zero byte", "a: b\nc: d\x00e\n"}, {"UTF-16 without a mark", "a\x00:\x00 \x00b\x00"},
		{"tabs", "a:\n\tb: c\n"}, {"a key twice", "a: b\na: c\n"}, {"an alias of nothing", "a: *b\n"}, {"an alias of itself", "a: &a [*a]\n"},
		{"nested too deep", "a: " + strings.Repeat("[", 20000)},
		{"aliases that explode", "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n"},
		{"too large", "a: " + strings.Repeat("x", MaxFileSize) + "\n"}, {"a folder", ""}, {"nothing there", ""},
	} {
		fmt.Fprintf(&got, "%s\n", c.what)
		for _, place := range places {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "m.yml"), []byte("a: b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "file.yml")
			var err error
			switch c.what {
			case "a folder":
				err = os.Mkdir(path, 0o700)
			case "nothing there":
				if place == "vars store" {
					continue // a missing store is created
				}
			default:
				err = os.WriteFile(path, []byte(c.text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			result := "accepted"
			if err := load(place, path, dir); err != nil {
				result = strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
			}
			fmt.Fprintf(&got, "  %s: %s\n", place, strings.ReplaceAll(result, "\n", "\n    "))
			if now, err := os.ReadFile(path); c.text != "" && (err != nil || string(now) != c.text) {
				t.Errorf("%s as %s was changed: %v", c.what, place, err)
			}
		}
	}
	golden.Assert(t, got.String(), "malformed.golden")
}
