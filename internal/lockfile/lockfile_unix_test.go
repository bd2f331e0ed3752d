//go:build unix

package lockfile

import (
	"path/filepath"
	"syscall"
	"testing"
)

// If a named pipe has the name of a lock file, it is locked at once, for one holder at a
// time.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(path)
	if got, err := l.TryLock(); !got || err != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	defer l.Close()
	other := New(path)
	defer other.Close()
	if got, err := other.TryRLock(); got || err != nil {
		t.Errorf("the second got %v, %v", got, err)
	}
}
