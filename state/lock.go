package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Holder says who has a state locked.
type Holder struct {
	User    string    `json:"user"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// LockedError says that another process has the state locked.
type LockedError struct {
	Path   string // of the lock file
	Holder Holder // empty where the lock file does not tell
}

func (e *LockedError) Error() string {
	h := e.Holder
	if h.PID == 0 {
		return fmt.Sprintf("the deployment state is locked (%s) by another process", e.Path)
	}
	return fmt.Sprintf("the deployment state is locked (%s) by %s@%s, process %d, `bootstrap %s`, since %s",
		e.Path, h.User, h.Host, h.PID, h.Command, h.Since.Format(time.RFC3339))
}

// lock is an flock, which the kernel drops when its holder dies. The file is
// never removed: a second process could then lock a file that is gone.
type lock struct {
	f *flock.Flock
}

func acquire(path string, who Holder) (*lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("cannot lock the deployment state: %w", err)
	}
	f := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	got, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock the deployment state with %s: %w", path, err)
	}
	if !got {
		locked := &LockedError{Path: path}
		if data, err := os.ReadFile(path); err == nil {
			// A lock file that is just being written tells nothing yet.
			_ = json.Unmarshal(data, &locked.Holder)
		}
		return nil, locked
	}
	data, err := json.Marshal(who)
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		_ = f.Unlock()
		return nil, fmt.Errorf("cannot lock the deployment state with %s: %w", path, err)
	}
	return &lock{f: f}, nil
}

func (l *lock) release() { _ = l.f.Close() }
