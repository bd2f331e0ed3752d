package fleet

import (
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

func TestMistakes(t *testing.T) {
	manifesttest.Mistakes(t, "fleet.yml", func(path string, opts document.Options) error {
		_, err := Read(t.Context(), path, opts, Outside{})
		return err
	})
}

// The state of a member may be in a store, each in a place of its own, without a password.
func TestStateInStore(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"s3://team/{name}": "",
		"s3://team/all":    "the same state file as",
		"postgres://ann:secret@db/states?environment={name}": "must not contain a password",
	} {
		dir := unpacked(t, "-- fleet.yml --\nmembers:\n- {manifest: a.yml, state: '"+state+"'}\n- {manifest: b.yml, state: '"+state+"'}\n-- a.yml --\n-- b.yml --\n")
		f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{})
		switch {
		case want == "" && (err != nil || f.Members[0].State != "s3://team/a" || !f.Members[0].IsStored()):
			t.Errorf("%s: %v", state, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", state, err)
		}
	}
}
