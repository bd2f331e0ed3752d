package rollout

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/state"
	"bootstrap/state/file"
)

func TestRunning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.yml")
	if Running(path) {
		t.Error("no run was started, and one is running")
	}
	if _, err := os.Lstat(lockPath(path)); !os.IsNotExist(err) {
		t.Errorf("looking has made a lock file: %v", err)
	}
	lock, err := file.LockFleet(lockPath(path), state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if !Running(path) {
		t.Error("a run is running, and is not seen")
	}
	lock.Close() // the file stays, as after a kill
	if Running(path) {
		t.Error("the run was killed, and is running")
	}
	if lock, err = file.LockFleet(lockPath(path), state.Holder{}); err != nil {
		t.Errorf("looking keeps the lock: %v", err)
	} else {
		lock.Remove()
	}
}
