package artifact

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A store that reads each local release once returns the same one to all, whoever changes the
// folder meanwhile. If the folder has to be read again, for other packages, and has changed,
// that is an error: nobody has seen the two together.
func TestReadsReleasesOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFolder(t, folder, releaseFiles())
	s := testStore(t)
	s.once = true
	part := local("web", folder, "")
	part.Needs = Needs{Only: true}
	before := readRelease(t, s, part)
	change := func(text string) {
		if err := os.WriteFile(filepath.Join(folder, "jobs/web/templates/ctl.erb"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("another")
	if after := readRelease(t, s, part); after.Version != before.Version {
		t.Errorf("the version was %s, and is %s", before.Version, after.Version)
	}
	f, err := s.Fetch(t.Context(), local("web", folder, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), f, nil); err == nil || !strings.Contains(err.Error(), "has changed since this command began to read it: run the same command again") {
		t.Errorf("all packages of the changed folder: %v", err)
	}

	other := testStore(t)
	other.once = true
	var wg sync.WaitGroup
	versions := make([]string, 8)
	for i := range versions {
		wg.Go(func() {
			if f, err := other.Fetch(t.Context(), local("web", folder, ""), nil); err == nil {
				if rel, err := other.Release(t.Context(), f, nil); err == nil {
					versions[i] = rel.Version
				}
			}
			change("by " + string(rune('a'+i)))
		})
	}
	wg.Wait()
	for _, v := range versions {
		if v == "" || v != versions[0] {
			t.Errorf("versions %q", versions)
			break
		}
	}
}
