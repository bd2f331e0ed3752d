//go:build unix

package secrets

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/internal/programtest"
)

// editing returns an edit of creds.yml.age, which contains a: 1, with an editor that is a
// script; $1 is the file.
func (p *person) editing(t *testing.T, editor string) Edit {
	t.Helper()
	p.write(t, "creds.yml", "a: 1\n")
	p.init(t, "creds.yml")
	memory := filepath.Join(filepath.Dir(p.dir), "memory")
	if err := os.Mkdir(memory, 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(p.home, "editor")
	programtest.Write(t, script, "#!/bin/sh\n"+editor+"\n")
	var out bytes.Buffer
	return Edit{
		Store: Place{Path: p.path("creds.yml.age")}, Keys: p.keys(), Editor: script, Env: os.Environ(), Memory: memory,
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Say: func(string) {},
	}
}

// The editor gets the values in a folder and a file in memory that only their owner can
// read. Both are removed; the vars store has the new values, for the same recipients.
func TestEdit(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	e := p.editing(t, `cp "$1" "${0%/*}/seen"; ls -ld "$1" "${1%/*}" | cut -c 1-10 >"${0%/*}/modes"; echo "a: 2" >"$1"`)
	var said []string
	e.Say = func(message string) { said = append(said, message) }
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen, _ := os.ReadFile(filepath.Join(p.home, "seen"))
	modes, _ := os.ReadFile(filepath.Join(p.home, "modes"))
	if string(seen) != "a: 1\n" || string(modes) != "drwx------\n-rw-------\n" {
		t.Errorf("the editor sees %s with the modes %s", seen, modes)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "Editing "+e.Memory+"/bootstrap-edit-") || !strings.HasSuffix(said[0], "/creds.yml, which is in memory only, and is removed afterwards") {
		t.Errorf("reported %q", said)
	}
	if !r.Changed || len(r.Recipients) != 1 || p.decrypted(t, "creds.yml.age") != "a: 2\n" {
		t.Errorf("%+v; %s", r, p.decrypted(t, "creds.yml.age"))
	}
	private(t, p.path("creds.yml.age"), 0o600)
	private(t, p.path("creds.yml.age.previous"), 0o600)
	if left, _ := os.ReadDir(e.Memory); len(left) > 0 || p.names(t) != "creds.yml.age creds.yml.age.previous" {
		t.Errorf("left: %v, %s", left, p.names(t))
	}
}

// However an edit fails, the values are unchanged, and a text of the person is kept,
// encrypted.
func TestEditRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		editor string
		change func(*testing.T, *person, *Edit)
		err    string
		kept   string // the text
	}{
		"no editor":              {"", func(_ *testing.T, _ *person, e *Edit) { e.Editor = "" }, "no editor is known: set $VISUAL or $EDITOR", ""},
		"unknown editor":         {"", func(_ *testing.T, _ *person, e *Edit) { e.Editor = "/absent/vi" }, "the editor /absent/vi failed", ""},
		"fails":                  {"exit 3", nil, "failed: exit status 3; nothing was changed", ""},
		"fails with a new text":  {`echo "a: 2" >"$1"; exit 3`, nil, "failed: exit status 3", "a: 2\n"},
		"an invalid text":        {`echo "- a" >"$1"`, nil, "nothing was changed", "- a\n"},
		"declined":               {`echo "- a" >"$1"`, func(_ *testing.T, _ *person, e *Edit) { e.Again = answers(false, nil) }, "nothing was changed", "- a\n"},
		"the question fails":     {`echo "- a" >"$1"`, func(_ *testing.T, _ *person, e *Edit) { e.Again = answers(false, errors.New("interrupted")) }, "interrupted", "- a\n"},
		"removed":                {`rm "$1"`, nil, "cannot read the text back", ""},
		"a link":                 {`rm "$1"; mkfifo "$1"`, nil, "cannot read the text back", ""},
		"fails and leaves rests": {`echo "a: 3" >"${1%/*}/.creds.yml.swp"; exit 3`, nil, "failed: exit status 3", "a: 3\n"},
		"nobody can read it":     {`echo "a: 2" >"$1"`, func(t *testing.T, _ *person, e *Edit) { e.Keys = newPerson(t).keys() }, "creds.yml.age", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			e := p.editing(t, c.editor)
			if c.change != nil {
				c.change(t, p, &e)
			}
			before := p.files(t)["creds.yml.age"]
			_, err := e.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
			if p.files(t)["creds.yml.age"] != before {
				t.Error("the vars store has changed")
			}
			if left, _ := os.ReadDir(e.Memory); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			want := "creds.yml.age"
			if c.kept != "" {
				want = "creds.yml.age creds.yml.edited.age"
				if !strings.Contains(err.Error(), "encrypted, in "+p.path("creds.yml.edited.age")+"; see it with: bootstrap secrets decrypt "+p.path("creds.yml.edited.age")) {
					t.Errorf("the error does not say where the text is: %v", err)
				}
				private(t, p.path("creds.yml.edited.age"), 0o600)
				if got := p.decrypted(t, "creds.yml.edited.age"); got != c.kept {
					t.Errorf("kept %q", got)
				}
			}
			if p.names(t) != want {
				t.Errorf("files %s, want %s", p.names(t), want)
			}
		})
	}
}

func answers(again bool, err error) func(context.Context, error) (bool, error) {
	return func(context.Context, error) (bool, error) { return again, err }
}

// After an invalid text, the mistake is shown, the person is asked, and gets that text
// again.
func TestEditAgain(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	e := p.editing(t, `case $(cat "$1") in "a: 1") echo "- a" >"$1";; "- a") echo "a: 2" >"$1";; esac`)
	var asked []string
	e.Again = func(_ context.Context, wrong error) (bool, error) {
		asked = append(asked, wrong.Error())
		return true, nil
	}
	if _, err := e.Run(t.Context()); err != nil || len(asked) != 1 || !strings.Contains(asked[0], "creds.yml.age") || p.decrypted(t, "creds.yml.age") != "a: 2\n" {
		t.Errorf("%v; asked %q", err, asked)
	}
}

// An edit without a change writes nothing.
func TestEditNothing(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	e := p.editing(t, "exit 0")
	before := p.files(t)["creds.yml.age"]
	r, err := e.Run(t.Context())
	if err != nil || r.Changed || !strings.HasPrefix(r.Text(), "Nothing was changed.") || p.files(t)["creds.yml.age"] != before {
		t.Errorf("%+v, %v", r, err)
	}
}

// If another process has written the store during the edit, that is not overwritten: the
// person's text is kept beside it, and a second one under another name.
func TestEditMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	e := p.editing(t, `echo "a: 2" >"$1"; cp "$OTHER" "$STORE"`)
	p.write(t, "other.yml", "a: 3\n")
	p.init(t, "other.yml")
	e.Env = append(e.Env, "OTHER="+p.path("other.yml.age"), "STORE="+p.path("creds.yml.age"))
	for _, kept := range []string{"creds.yml.edited.age", "creds.yml.edited.2.age"} {
		_, err := e.Run(t.Context())
		var why *KeptError
		if !errors.As(err, &why) || !strings.Contains(err.Error(), "another process has changed") || !strings.Contains(why.All(), kept) {
			t.Errorf("error %v", err)
		}
		if p.decrypted(t, "creds.yml.age") != "a: 3\n" || p.decrypted(t, kept) != "a: 2\n" {
			t.Errorf("the vars store has %q, and %s %q", p.decrypted(t, "creds.yml.age"), kept, p.decrypted(t, kept))
		}
		p.write(t, "other.yml", "a: 3\n")
		if err := os.Remove(p.path("other.yml.age")); err != nil {
			t.Fatal(err)
		}
		p.init(t, "other.yml") // another text with the same values
	}
}
