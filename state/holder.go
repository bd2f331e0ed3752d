package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// LockedBy tells who has the state at path locked; nil: nobody. It neither
// waits nor makes a file.
func LockedBy(path string) (*LockedError, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	path += ".lock"
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look who has the deployment state locked: %w", err)
	}
	// A shared lock is free to get while nobody has the other one, and is
	// given back at once.
	f := flock.New(path, flock.SetFlag(os.O_RDONLY))
	got, err := f.TryRLock()
	defer func() { _ = f.Close() }()
	if err != nil {
		return nil, fmt.Errorf("cannot look who has the deployment state locked with %s: %w", path, err)
	}
	if got {
		return nil, nil
	}
	locked := &LockedError{What: "the deployment state", Path: path}
	_ = json.Unmarshal(data, &locked.Holder) // one that is just being written tells nothing
	return locked, nil
}
