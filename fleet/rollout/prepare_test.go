package rollout

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The logs of the oldest runs are removed, but never those of the run that begins, even
// if the clock was set back.
func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := filepath.Join(dir, "20010101-000000-000")
	for i := range keptRuns + 5 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("20261122-0000%02d-000", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(keep, 0o700); err != nil {
		t.Fatal(err)
	}
	prune(keep)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != keptRuns {
		t.Fatalf("%d runs are kept, %v", len(entries), err)
	}
	if entries[0].Name() != filepath.Base(keep) || entries[1].Name() != "20261122-000006-000" {
		t.Errorf("kept: %s, %s", entries[0].Name(), entries[1].Name())
	}
}
