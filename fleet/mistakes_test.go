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
		_, err := Read(t.Context(), path, opts)
		return err
	})
}

// A URL is not a path: a file of that name would be another state of the same VM.
func TestStateInStore(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "-- fleet.yml --\nmembers:\n- {manifest: a.yml, state: 's3://team/{name}'}\n-- a.yml --\n")
	_, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{})
	if err == nil || !strings.Contains(err.Error(), "cannot have their state in the store of a team") {
		t.Error(err)
	}
}
