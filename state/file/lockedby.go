package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/gofrs/flock"

	"bootstrap/internal/regular"
)

// LockedBy returns who holds the lock of the state at path, or nil. It neither
// waits nor creates a file.
func LockedBy(path string) (*LockedError, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	return lockedBy(theState, path+".lock", nil)
}

// DeploymentLockedBy returns which other run holds the lock file of a deployment with
// several instances, or nil. mine are the processes of this run.
func DeploymentLockedBy(path string, mine ...int) (*LockedError, error) {
	return lockedBy(theDeployment, path, mine)
}

// lockedBy returns who holds the lock file at path, or nil. The lock is not touched if its
// last holder was one of mine.
func lockedBy(what, path string, mine []int) (*LockedError, error) {
	data, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find out who has locked %s: %w", what, err)
	}
	locked := &LockedError{What: what, Path: path}
	_ = json.Unmarshal(data, &locked.Holder) // the holder may be writing the lock file, which is empty then
	if slices.Contains(mine, locked.Holder.PID) {
		return nil, nil
	}
	// A shared lock can be taken if no process holds the exclusive one. It is released
	// immediately.
	f := flock.New(path, flock.SetFlag(os.O_RDONLY))
	got, err := f.TryRLock()
	defer func() { _ = f.Close() }()
	if err != nil {
		return nil, fmt.Errorf("cannot find out who has locked %s with %s: %w", what, path, err)
	}
	if got {
		return nil, nil
	}
	return locked, nil
}
