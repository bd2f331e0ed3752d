package file

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/internal/lockfile"
)

// A lock that a killed run has left is removed; one that a process holds stays.
func TestRemoveLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web-0.json")
	if err := RemoveLock(path); err != nil {
		t.Errorf("without a lock: %v", err)
	}
	if err := os.WriteFile(path+".lock", []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := lockfile.Try(path + ".lock")
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	if err := RemoveLock(path); err != nil || !fileExists(path+".lock") {
		t.Errorf("a held lock: %v", err)
	}
	held.Close()
	if err := RemoveLock(path); err != nil || fileExists(path+".lock") {
		t.Errorf("a lock that is left: %v", err)
	}
}
