package record

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStateOf checks where the record may say that a state is.
func TestStateOf(t *testing.T) {
	for state, want := range map[string]string{
		"web-0.json":            "cluster-state/web-0.json",
		"../cluster-state.json": "cluster-state.json",
		"../../other.json":      "",
		"../..":                 "",
		"../":                   "",
		"folder/web-0.json":     "",
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "cluster-state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		data := `{"format": 1, "instances": [{"id": "a", "group": "web", "state": "` + state + `"}]}`
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is accepted", state)
		case want == "":
		case err != nil:
			t.Errorf("%q: %v", state, err)
		case r.StatePath(r.Instances[0]) != filepath.Join(top, want):
			t.Errorf("%q is at %s", state, r.StatePath(r.Instances[0]))
		}
	}
}

// TestDirOf checks that a folder and its state file name each other.
func TestDirOf(t *testing.T) {
	for state, want := range map[string]string{
		"":             "page-state",
		"a.json":       "a",
		"x/a.b.json":   "x/a.b",
		"x/state":      "x/state-instances",
		"x/.json":      "x/.json-instances",
		"/tmp/a.state": "/tmp/a.state-instances",
	} {
		dir := DirOf("page.yml", state)
		if dir != want || StateOf("page.yml", dir) != state {
			t.Errorf("%q: %q, and back %q", state, dir, StateOf("page.yml", dir))
		}
	}
}
