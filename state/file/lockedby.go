package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	path += ".lock"
	data, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find out who has locked the deployment state: %w", err)
	}
	// A shared lock can be taken if no process holds the exclusive one. It is released
	// immediately.
	f := flock.New(path, flock.SetFlag(os.O_RDONLY))
	got, err := f.TryRLock()
	defer func() { _ = f.Close() }()
	if err != nil {
		return nil, fmt.Errorf("cannot find out who has locked the deployment state with %s: %w", path, err)
	}
	if got {
		return nil, nil
	}
	locked := &LockedError{What: theState, Path: path}
	_ = json.Unmarshal(data, &locked.Holder) // the holder may be writing the lock file, which is empty then
	return locked, nil
}
