package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"git+https://h/p":                "https://h/p ",
		"git+https://h/p@v1.2":           "https://h/p v1.2",
		"git+ssh://git@h/p":              "ssh://git@h/p ",
		"git+ssh://git@h/p@feature/x":    "ssh://git@h/p feature/x",
		"git+file:///a/b@main":           "file:///a/b main",
		"git+ext://h/p":                  "error",
		"git+http://h/p":                 "error",
		"git+https://u:p@h/p":            "error",
		"git+https://h/p@--upload-pack=": "error",
		"git+https://h/p@":               "error",
		"https://h/p":                    "none",
	} {
		u, found, err := Parse(text)
		got := u.Address + " " + u.Ref
		switch {
		case err != nil:
			got = "error"
		case !found:
			got = "none"
		case u.String() != text:
			t.Errorf("%s is written as %s", text, u)
		}
		if got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("git+https://h/p@v1")
	f.Add("git+https")
	f.Fuzz(func(t *testing.T, text string) {
		u, found, err := Parse(text)
		if found && err == nil && (u.String() != text || strings.HasPrefix(u.Ref, "-") || strings.HasPrefix(u.Address, "-")) {
			t.Errorf("%q is read as %+v", text, u)
		}
	})
}

func TestCheckout(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	repo := t.TempDir()
	in := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in("add", ".")
		in("commit", "-q", "-m", text)
	}
	in("init", "-q", "-b", "main")
	write("one")
	in("tag", "-a", "-m", "one", "v1")
	write("two")
	u := URL{Address: "file://" + repo}
	for refs, want := range map[string]string{"": "two", "main": "two", "none v1": "one"} {
		id, of, err := u.Commit(t.Context(), strings.Split(refs, " ")...)
		if err != nil || !commit.MatchString(id) {
			t.Fatal(refs, id, of, err)
		}
		dir := t.TempDir()
		at := URL{u.Address, id}
		if err := at.Checkout(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != want {
			t.Errorf("%q: %s, %v", refs, text, err)
		}
	}
	if _, _, err := u.Commit(t.Context(), "v2", "2"); err == nil || !strings.Contains(err.Error(), "neither a tag nor a branch v2 or 2") {
		t.Error(err)
	}
	if _, _, err := (URL{Address: "file://" + repo + "/none"}).Commit(t.Context()); err == nil || !strings.Contains(err.Error(), "git ls-remote failed: ") {
		t.Error(err)
	}
}
