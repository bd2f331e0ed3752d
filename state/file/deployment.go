package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/state/team"
)

// RecordStore is the record of a deployment with several instances in the store of a
// team, and this machine's copy of it.
type RecordStore struct{ copied *team.Copy }

// RecordIn returns the record of the deployment whose state is in a store.
func RecordIn(t *team.Copy) RecordStore { return RecordStore{t.Record()} }

// Push writes this machine's copy to the store. This run must hold the lock of the
// deployment.
func (r RecordStore) Push(ctx context.Context) error {
	if err := r.copied.Push(ctx); err != nil {
		return &UnsentError{Place: r.copied.Place(), Path: r.copied.StatePath(), Err: err}
	}
	return nil
}

// Remove removes the record and its history from the store, except versions that are the
// only record of something.
func (r RecordStore) Remove(ctx context.Context) error {
	h, err := r.copied.History(ctx)
	if err != nil {
		return err
	}
	var keep []int
	for _, v := range h.Versions {
		if len(v.Only) > 0 {
			keep = append(keep, v.Serial)
		}
	}
	return r.copied.Remove(ctx, keep...)
}

// Removed records that this machine's copy is removed, too.
func (r RecordStore) Removed() error { return r.copied.Removed() }

// State returns how the record names the state of a new instance.
func (RecordStore) State(name string) string { return team.InstanceState(name) }

// RefreshPart copies the record, or the state of an instance, from the store. It does
// nothing while another process of this machine uses the copy.
func RefreshPart(ctx context.Context, part *team.Copy) error {
	path := part.StatePath()
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of this machine's copy of %s: %w", part.Place(), err)
	}
	lock, err := lockfile.Try(path + ".lock")
	if err != nil || lock == nil {
		return err
	}
	err = part.Pull(ctx)
	if fileExists(path) {
		lock.Close()
		return err
	}
	lock.Remove()
	return errors.Join(err, part.Clean())
}

// RecordLock is the lock of a deployment with several instances, on this machine and in
// its store.
type RecordLock struct {
	run, lock *lockfile.Lock // of the run, and of the copy of the record
	copied    *team.Copy
}

// refreshTime limits the wait for a command that copies the record from the store.
const refreshTime = time.Minute

// LockRecord locks a deployment whose state is in a store, and copies its record from
// there. Before that, it sends the record that an earlier run of this machine could not
// send. path is the file that a run locks on this machine.
func LockRecord(ctx context.Context, t *team.Copy, path string, opts Options) (_ *RecordLock, err error) {
	l := &RecordLock{copied: t.Record()}
	if l.run, err = LockDeployment(ctx, path, opts.Holder); err != nil {
		return nil, err
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
	if err := l.copied.Pull(ctx); err != nil {
		return nil, err
	}
	unsent, err := l.copied.Unsent()
	if err != nil {
		return nil, err
	}
	// A run from which the lock was taken must not be able to write: the same record gets
	// another version.
	if unsent || taken && fileExists(l.copied.StatePath()) {
		if err := (RecordStore{l.copied}).Push(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Confirm returns an error if this run must not begin its next step: another run has
// taken the lock.
func (l *RecordLock) Confirm(ctx context.Context) error { return l.copied.Confirm(ctx) }

// recordAt returns the record at a path, and its serial number.
func recordAt(path string) (serial int, data []byte) {
	var r struct{ Serial int }
	data, err := readWhole(path)
	if err != nil || json.Unmarshal(data, &r) != nil {
		return 0, nil
	}
	return r.Serial, data
}

// Unlock gives up the lock. warn is called with errors.
func (l *RecordLock) Unlock(ctx context.Context, warn func(error)) {
	ctx = context.WithoutCancel(ctx) // each request has a deadline
	report := func(err error) {
		if err != nil && warn != nil {
			warn(err)
		}
	}
	defer l.run.Remove()
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
