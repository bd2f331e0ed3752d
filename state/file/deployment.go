package file

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"bootstrap/internal/lockfile"
	"bootstrap/state/team"
)

// PushRecord writes this machine's copy of the record of several instances to the store of
// the deployment. This run must hold the lock of the deployment.
func PushRecord(ctx context.Context, t *team.Copy) error {
	of := t.Record()
	if err := of.Push(ctx); err != nil {
		return &UnsentError{Place: of.Place(), Path: of.StatePath(), Err: err}
	}
	return nil
}

// RemoveRecord removes the record of several instances and its history from the store of the
// deployment, except versions that are the only record of something.
func RemoveRecord(ctx context.Context, t *team.Copy) error {
	of := t.Record()
	h, err := of.History(ctx)
	if err != nil {
		return err
	}
	var keep []int
	for _, v := range h.Versions {
		if len(v.Only) > 0 {
			keep = append(keep, v.Serial)
		}
	}
	return of.Remove(ctx, "", keep...)
}

// RefreshPart copies the record, or the state of an instance, from the store. It does
// nothing while another process of this machine uses the copy.
func RefreshPart(ctx context.Context, part *team.Copy) error {
	if part == nil {
		return nil
	}
	return whileUnused(part, func() error { return part.Pull(ctx) })
}

// RecordLock is the lock of a deployment with several instances, on this machine and in
// its store.
type RecordLock struct {
	run    *lockfile.Lock
	copied *team.Copy     // nil: the record is in a folder
	lock   *lockfile.Lock // of the copy
}

// refreshTime limits the wait for a command that copies the record from the store.
const refreshTime = time.Minute

// LockRecord locks a deployment, and copies its record from the store, if it is in one.
// Before that, it sends the record that an earlier run of this machine could not send. path is
// the file that a run locks on this machine. The error is a *LockedError if another process
// holds that lock for longer than DeploymentLockedBy does.
func LockRecord(ctx context.Context, t *team.Copy, path string, opts Options) (_ *RecordLock, err error) {
	l := &RecordLock{copied: t.Record()}
	if l.run, err = lockRun(ctx, path, opts.Holder); err != nil {
		return nil, err
	}
	if t == nil {
		return l, nil
	}
	defer func() {
		if err != nil {
			l.Unlock(ctx, opts.Warn)
		}
	}()
	refreshed := locker{who: opts.Holder, until: time.Now().Add(refreshTime)}
	if l.lock, err = refreshed.acquire(ctx, theDeployment, l.copied.StatePath()+".lock"); err != nil {
		return nil, err
	}
	taken, err := l.copied.Lock(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.copied.Probe(ctx); err != nil {
		return nil, err
	}
	if err := pull(ctx, l.copied, opts); err != nil {
		return nil, err
	}
	unsent, err := l.copied.Unsent()
	if err != nil {
		return nil, err
	}
	// A run from which the lock was taken must not be able to write: the same record gets
	// another version.
	if unsent || taken && fileExists(l.copied.StatePath()) {
		if err := PushRecord(ctx, t); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Confirm returns an error if this run must not begin its next step: another run has
// taken the lock.
func (l *RecordLock) Confirm(ctx context.Context) error { return l.copied.Confirm(ctx) }

// recordAt returns the serial number of the record at a path.
func recordAt(path string) int {
	var r struct{ Serial int }
	data, err := readWhole(path)
	if err != nil || json.Unmarshal(data, &r) != nil {
		return 0
	}
	return r.Serial
}

// Unlock gives up the lock, and removes the folder of the lock if nothing else is in it. warn
// is called with errors.
func (l *RecordLock) Unlock(ctx context.Context, warn func(error)) {
	ctx = context.WithoutCancel(ctx) // each request has a deadline
	report := func(err error) {
		if err != nil && warn != nil {
			warn(err)
		}
	}
	defer func() {
		l.run.Remove()
		_ = os.Remove(l.run.Dir()) // It stays if it contains a record.
	}()
	if l.lock == nil {
		return
	}
	report(l.copied.Unlock(ctx))
	if fileExists(l.copied.StatePath()) {
		l.lock.Close()
		return
	}
	l.lock.Remove()
	l.run.Remove()
	report(l.copied.Clean())
}

// ForgetRecord records in a store that the deployment is deleted, whose record the store has
// lost, and renames this machine's copy of the record. lock is the path of the file that a
// run locks on this machine. first is called while the deployment is locked. kept is the new
// path of the copy; empty: there was none.
func ForgetRecord(ctx context.Context, t *team.Copy, lock string, opts Options, first func() error) (kept string, err error) {
	run, err := lockRun(ctx, lock, opts.Holder)
	if err != nil {
		return "", err
	}
	defer run.Remove()
	of := t.Record()
	if _, err := of.Lock(ctx); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, of.Unlock(context.WithoutCancel(ctx))) }()
	err = of.Pull(ctx)
	if lost, other := team.Lost(err); lost == nil {
		return "", cmp.Or(other, error(&MissingError{Path: of.Place()}))
	}
	if err := first(); err != nil {
		return "", err
	}
	if fileExists(of.StatePath()) {
		if kept, err = keepAside(of.StatePath()); err != nil {
			return "", err
		}
	}
	if err := of.Forget(ctx, ""); err != nil {
		return kept, err
	}
	return kept, of.Removed()
}

// keepAside renames a file of a copy, because it may be the only record of something, and
// returns its new path.
func keepAside(path string) (string, error) {
	kept := asideOf(path)
	if err := os.Rename(path, kept); err != nil {
		return "", fmt.Errorf("cannot keep this machine's copy of the record: %w", err)
	}
	return kept, nil
}

// asideOf returns an unused path for a file of a copy that is kept: an earlier one may be the
// only record of something.
func asideOf(path string) string {
	kept := path + ".unsent"
	for i := 2; fileExists(kept); i++ {
		kept = fmt.Sprintf("%s.unsent-%d", path, i)
	}
	return kept
}
