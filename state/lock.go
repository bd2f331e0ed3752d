package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/wait"
)

// Holder says who has a state locked.
type Holder struct {
	User    string    `json:"user"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// LockedError says that another process has the state locked, or the folder
// of the installation that it names.
type LockedError struct {
	What   string // "the deployment state" or "the installation"
	Path   string // of the lock file
	Holder Holder // empty where the lock file does not tell
}

func (e *LockedError) Error() string {
	h := e.Holder
	if h.PID == 0 {
		return fmt.Sprintf("%s is locked (%s) by another process", e.What, e.Path)
	}
	return fmt.Sprintf("%s is locked (%s) by %s@%s, process %d, `bootstrap %s`, since %s",
		e.What, e.Path, h.User, h.Host, h.PID, h.Command, h.Since.UTC().Format("2006-01-02 15:04 UTC"))
}

// locker is what acquiring locks needs; its deadline is one for all of them.
type locker struct {
	who     Holder
	until   time.Time
	waiting func(*LockedError) // may be nil
}

const lockRetry = 100 * time.Millisecond

// acquire locks a file, and waits for it as long as it may: the error is a
// *LockedError when that was not long enough.
func (l *locker) acquire(ctx context.Context, what, path string) (*lockfile.Lock, error) {
	var got *lockfile.Lock
	var told bool
	err := wait.Poll(ctx, lockRetry, func() (ended bool, err error) {
		got, err = l.try(what, path)
		var locked *LockedError
		if !errors.As(err, &locked) || !time.Now().Before(l.until) {
			return true, err
		}
		if !told && l.waiting != nil {
			l.waiting(locked)
			told = true
		}
		return false, nil
	})
	return got, err
}

func (l *locker) try(what, path string) (*lockfile.Lock, error) {
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", what, err)
	}
	got, err := lockfile.Try(path)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s with %s: %w", what, path, err)
	}
	if got == nil {
		locked := &LockedError{What: what, Path: path}
		if data, err := os.ReadFile(path); err == nil {
			// A lock file that is just being written tells nothing yet.
			_ = json.Unmarshal(data, &locked.Holder)
		}
		return nil, locked
	}
	data, err := json.Marshal(l.who)
	if err == nil {
		err = got.Write(append(data, '\n'))
	}
	if err != nil {
		got.Close()
		return nil, fmt.Errorf("cannot lock %s with %s: %w", what, path, err)
	}
	return got, nil
}

// lockInstallation locks the folder of the installation, which two copies of
// one state file share. It is asked for again by the first write of a state
// that was not there.
func (f *File) lockInstallation(ctx context.Context, id string) error {
	// Windows does not remove a folder in which a file is open.
	if f.opts.Home == "" || runtime.GOOS == "windows" {
		return nil
	}
	dir := filepath.Join(f.opts.Home, id)
	if f.installation != nil {
		if f.installation.Dir() == dir {
			return nil
		}
		f.installation.Close()
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the installation: %w", err)
	}
	got, err := f.locker.acquire(ctx, "the installation", filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, by a delete
		got, err = f.locker.acquire(ctx, "the installation", filepath.Join(dir, "lock"))
	}
	f.installation = got
	if err == nil {
		atomicfile.DropCut(mirrorOf(f.opts.Home, id))
	}
	return err
}
