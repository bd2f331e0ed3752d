//go:build unix

package catalog

import (
	"path/filepath"
	"syscall"
	"testing"

	"bootstrap/artifact/tartest"
)

// A named pipe in place of the lock file is refused at once: no process writes to it. Nobody
// is asked to delete it, or a folder.
func TestLockIsNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.lock.yml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadLock(path)
	tartest.MustFail(t, err, "cannot use the lock file", "not a regular file", "--lock-file FILE")
	_, err = ReadLock(filepath.Dir(path))
	tartest.MustFail(t, err, "cannot use the lock file", "not a regular file", "--lock-file FILE")
}
