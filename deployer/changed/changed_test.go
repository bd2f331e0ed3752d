package changed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/artifact/archive"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
)

// hide replaces the secrets of these tests as the redactor does: in a whole text.
func hide(text string) string {
	return strings.NewReplacer("one-secret", redacted, "other-secret", redacted, "KEY\nof two\nlines", redacted, "KEY\nof its own", redacted).Replace(text)
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ name, was, is, want string }{
		{"a line", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"},
		{"a secret", "a\npw: one-secret\nc\n", "a\npw: other-secret\nc\n", "@@ -1,3 +1,3 @@\n a\n-pw: <redacted>\n+pw: <redacted> (a secret changed)\n c"},
		{"beside a secret that stays", "pw: one-secret\nb\n", "pw: one-secret\nB\n", "@@ -1,2 +1,2 @@\n pw: <redacted>\n-b\n+B"},
		{"a line with a secret", "x one-secret\n", "y other-secret\n", "@@ -1,1 +1,1 @@\n-x <redacted>\n+y <redacted>"},
		{"a secret of several lines", "k: KEY\nof two\nlines\nz\n", "k: KEY\nof its own\nz\n", "@@ -1,2 +1,2 @@\n-k: <redacted>\n+k: <redacted> (a secret changed)\n z"},
		{"one of two on a line", "one-secret:one-secret\n", "one-secret:other-secret\n", "@@ -1,1 +1,1 @@\n-<redacted>:<redacted>\n+<redacted>:<redacted> (a secret changed)"},
		{"the word itself", "<redacted> a\nb\n", "<redacted> a\nB\n", "@@ -1,2 +1,2 @@\n <redacted> a\n-b\n+B"},
		{"the end of the file", "a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a"},
	} {
		if got := lines(c.was, c.is, hide); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

// A long difference is cut off, and ends with the number of omitted lines.
func TestManyLines(t *testing.T) {
	var was, is strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&was, "was %d\n", i)
		fmt.Fprintf(&is, "is %d\n", i)
	}
	list := strings.Split(lines(was.String(), is.String(), hide), "\n")
	if len(list) != mostLines+1 || list[mostLines] != "… (1501 more lines)" {
		t.Errorf("%d lines, the last one %q", len(list), list[len(list)-1])
	}
}

// folder returns a folder with these files.
func folder(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "rendered.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := archive.Pack(context.Background(), dir, f); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// Archives and folders are compared, whatever their files contain and however large they
// are.
func TestCompare(t *testing.T) {
	large := strings.Repeat("x", most+1)
	was := folder(t, map[string]string{"web/same": "a\n", "web/gone": "a\n", "web/bin/ctl": "a\n", "web/data": "\x00a", "web/large": large, "web/large2": large, "web/mode": "a\n"})
	is := folder(t, map[string]string{"web/same": "a\n", "db/config/new": "a\n", "web/bin/ctl": "b\n", "web/data": "\x00b", "web/large": large, "web/large2": large + "x", "web/mode": "a\n"})
	if err := os.Chmod(filepath.Join(is, "web", "mode"), 0o750); err != nil {
		t.Fatal(err)
	}
	f := kept.At(t.TempDir())
	spec := agent.Spec{ConfigurationHash: "hash"}
	if err := f.SetApplied(kept.Applied{VM: "vm-1", Spec: spec}, nil, packed(t, was), false); err != nil {
		t.Fatal(err)
	}
	c := Case{Folder: f, VM: "vm-1", Facts: plan.Facts{Answers: true, Now: agent.State{Spec: spec}}, Secrets: 1, Archive: packed(t, is), Redact: hide}
	list, why, err := Compare(t.Context(), c)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	var got strings.Builder
	for _, d := range list {
		fmt.Fprintf(&got, "%s %s %s|%s|%s|%s\n", d.Job, d.Path, d.Change, d.Mode, strings.ReplaceAll(d.Diff, "\n", "/"), d.Hidden)
	}
	want := `db config/new new|||
web bin/ctl changed||@@ -1,1 +1,1 @@/-a/+b|
web data changed|||the file is not text
web gone removed|||
web large2 changed|||the file is too large to compare: 1048577 bytes, and then 1048578
web mode changed|0640 -> 0750||
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}

	for _, test := range []struct {
		change func(*Case)
		want   string
	}{
		{func(c *Case) { c.Moves = true }, "the new VM's address is not known yet"},
		{func(c *Case) { c.Facts = plan.Facts{} }, "the agent does not answer"},
	} {
		c := c
		test.change(&c)
		if list, note, err := Compare(t.Context(), c); err != nil || len(list) == 0 || !strings.HasPrefix(note, test.want) {
			t.Errorf("%v, %q, %v, want %q", list, note, err, test.want)
		}
	}
	for name, test := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"no VM":            {func(c *Case) { c.VM = "" }, "there is no VM"},
		"another VM":       {func(c *Case) { c.VM = "vm-2" }, "this machine has not kept"},
		"another deploy":   {func(c *Case) { c.Facts.Now.ConfigurationHash = "other" }, "the last deploy failed, or"},
		"no secrets known": {func(c *Case) { c.Secrets = 0 }, "an older bootstrap"},
		"nothing was kept": {func(c *Case) { c.Folder = kept.At(t.TempDir()) }, "this machine has not kept"},
	} {
		c := c
		test.change(&c)
		if list, why, err := Compare(t.Context(), c); err != nil || list != nil || !strings.HasPrefix(why, test.want) {
			t.Errorf("%s: %v, %q, %v", name, list, why, err)
		}
	}
	if err := os.Remove(f.Rendered(kept.Current)); err != nil {
		t.Fatal(err)
	}
	if _, why, err := Compare(t.Context(), c); err != nil || !strings.HasPrefix(why, "this machine has not kept") {
		t.Errorf("without the archive: %q, %v", why, err)
	}
}
