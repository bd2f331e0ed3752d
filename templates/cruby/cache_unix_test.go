//go:build unix

package cruby

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A named pipe in place of a file of the cache is not opened: no process writes to it, so
// every run would wait.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	s := newStore(t, dir)
	for _, path := range []string{filepath.Join(s.folder(), sumsName), filepath.Join(dir, lockName(s.name))} {
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if s = openTest(t, dir); s.verified {
		t.Error("a folder without sums is used")
	}
	if _, err := os.Stat(s.folder()); err == nil {
		t.Error("the folder is left")
	}
}
