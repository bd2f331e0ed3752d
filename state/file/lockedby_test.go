package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/state"
)

func TestLockedBy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	free := func(when string) {
		t.Helper()
		if by, err := LockedBy(path); by != nil || err != nil {
			t.Errorf("%s: %v, %v", when, by, err)
		}
	}
	free("never locked")
	if _, err := os.Stat(path + ".lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking made the lock file: %v", err)
	}
	f, err := Open(t.Context(), path, Options{Holder: state.Holder{User: "me", PID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if by, err := LockedBy(path); err != nil || by == nil || by.Holder.User != "me" || by.Holder.PID != 7 {
		t.Errorf("locked: %+v, %v", by, err)
	}
	f.Close()
	free("given back")
	if f, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatalf("looking keeps the lock: %v", err)
	}
	f.Close()
}

// If a file of another kind is at the path of a lock, the error names it once.
func TestLockIsNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json.lock")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := LockFleet(path, state.Holder{})
	if err == nil || strings.Count(err.Error(), path) != 1 || !strings.HasPrefix(err.Error(), "cannot lock the fleet: "+path+" is a folder") {
		t.Errorf("got %v", err)
	}
}
