package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
	"bootstrap/internal/wait"
	"bootstrap/state"
)

// LockedError says that another process holds the lock of the state or of its
// installation.
type LockedError struct {
	What   string       // "the deployment state", "the installation" or Fleet
	Path   string       // of the lock file
	Holder state.Holder // empty if the lock file does not name it
}

func (e *LockedError) Error() string {
	h := e.Holder
	if h.PID == 0 {
		return fmt.Sprintf("%s is locked (%s) by another process", e.What, e.Path)
	}
	return fmt.Sprintf("%s is locked (%s) by %s@%s, process %d, `bootstrap %s`, since %s",
		e.What, e.Path, h.User, h.Host, h.PID, h.Command, h.Since.UTC().Format("2006-01-02 15:04 UTC"))
}

func (e *LockedError) Name() string {
	if e.What == Fleet {
		return "fleet-locked"
	}
	return "state-locked"
}

func (e *LockedError) ExitCode() failure.Code { return failure.Locked }

func (e *LockedError) Hint() string {
	if e.What == Fleet {
		return `"bootstrap fleet status FLEET" shows what it does; run the same command again when it has ended`
	}
	return "run the same command again when the other run has ended, or with --lock-wait 10m to wait for it; the lock ends with its process"
}

// locker acquires locks, all of them before one deadline.
type locker struct {
	who     state.Holder
	until   time.Time
	waiting func(*LockedError) // called once before waiting; may be nil
}

// theState is the name of the state in messages.
const theState = "the deployment state"

// theDeployment is the name of a deployment of several instances in messages.
const theDeployment = "the deployment"

const lockRetry = 100 * time.Millisecond

// acquire locks a file. The error is a *LockedError if another process holds the lock
// until the deadline.
func (l *locker) acquire(ctx context.Context, what, path string) (*lockfile.Lock, error) {
	var got *lockfile.Lock
	waited := false
	err := wait.Poll(ctx, lockRetry, func() (ended bool, err error) {
		got, err = l.try(what, path)
		var locked *LockedError
		if !errors.As(err, &locked) || !time.Now().Before(l.until) {
			return true, err
		}
		if !waited && l.waiting != nil {
			l.waiting(locked)
			waited = true
		}
		return false, nil
	})
	return got, err
}

func (l *locker) try(what, path string) (*lockfile.Lock, error) {
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, lockRefused(what, path, err)
	}
	got, err := lockfile.Try(path)
	if err != nil {
		return nil, lockRefused(what, path, err)
	}
	if got == nil {
		locked := &LockedError{What: what, Path: path}
		if data, err := regular.Read(path); err == nil {
			// The holder may be writing the lock file, which is empty then.
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

// lockRefused returns why a file cannot be locked. It explains a folder without write
// access, such as a read-only checkout.
func lockRefused(what, path string, err error) error {
	cause := err
	var at *fs.PathError
	if errors.As(err, &at) {
		cause = at.Err
	}
	if what != theState && what != theDeployment || !errors.Is(err, syscall.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("cannot lock %s: %w", what, err)
	}
	if what == theDeployment { // Another place has other instances.
		return failure.Named("state-unwritable", fmt.Errorf("cannot lock %s: this user cannot write to the folder %s (%w); run the same command as its owner, or make the folder writable", what, filepath.Dir(path), cause))
	}
	return failure.Named("state-unwritable", fmt.Errorf("cannot write %s: this user cannot write to %s (%w); choose another place with --state FILE", what, filepath.Dir(path), cause))
}

// RemoveLock removes the lock of a state that does not exist, which a run that was killed
// before it wrote the state has left. It does nothing while another process holds it.
func RemoveLock(statePath string) error {
	path := statePath + ".lock"
	if !fileExists(path) {
		return nil
	}
	lock, err := lockfile.Try(path)
	if err != nil {
		return lockRefused(theState, path, err)
	}
	lock.Remove()
	return nil
}

// Fleet is the name of a fleet's run in a *LockedError.
const Fleet = "the fleet"

// LockFleet locks the file at path for a run of a fleet. The error is a *LockedError
// if another process holds the lock.
func LockFleet(path string, who state.Holder) (*lockfile.Lock, error) {
	l := locker{who: who}
	return l.try(Fleet, path)
}

// lockRun locks the file at path for a run of a deployment with several instances.
func lockRun(ctx context.Context, path string, who state.Holder) (*lockfile.Lock, error) {
	l := locker{who: who, until: time.Now().Add(2 * lockRetry)}
	return l.acquire(ctx, theDeployment, path)
}

// lockInstallation locks the folder of the installation, which copies of the state file
// share. It does nothing if this run has locked it already.
func (s *Store) lockInstallation(ctx context.Context, id string) error {
	// Windows cannot remove a folder that contains an open file.
	if s.opts.Home == "" || runtime.GOOS == "windows" {
		return nil
	}
	dir := filepath.Join(s.opts.Home, id)
	if s.installation != nil {
		if s.installation.Dir() == dir {
			return nil
		}
		s.installation.Close()
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the installation: %w", err)
	}
	got, err := s.locker.acquire(ctx, "the installation", filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) { // a delete has removed the folder since
		got, err = s.locker.acquire(ctx, "the installation", filepath.Join(dir, "lock"))
	}
	s.installation = got
	if err == nil {
		atomicfile.RemoveStale(mirrorOf(s.opts.Home, id))
	}
	return err
}
