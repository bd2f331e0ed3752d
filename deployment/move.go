package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Place is where the record of a deployment and the states of its instances are.
type Place struct {
	Name string // the path of the state file, or the store
	// Path is that of the state file whose folder it is, or of this machine's copy of the
	// store.
	Path string
	Opts file.Options // Team is the store; nil: it is a folder
	// One is true if there is no record, or if the state at Path is meant alone.
	One bool
}

// Dir returns the folder of the record.
func (p Place) Dir() string {
	if p.Opts.Team != nil {
		return p.Opts.Team.RecordFolder()
	}
	return record.DirOf("", p.Path)
}

// store returns the store of the record; nil: it is only a file.
func (p Place) store() record.Store {
	if p.Opts.Team == nil {
		return nil
	}
	return file.RecordIn(p.Opts.Team)
}

// lock locks the deployment at the place.
func (p Place) lock(ctx context.Context) (unlock func(), err error) {
	path := record.LockPath(p.Dir())
	if p.Opts.Team != nil {
		l, err := file.LockRecord(ctx, p.Opts.Team, path, p.Opts)
		if err != nil {
			return nil, err
		}
		return func() { l.Unlock(ctx, p.Opts.Warn) }, nil
	}
	l, err := file.LockDeployment(ctx, path, p.Opts.Holder)
	if err != nil {
		return nil, err
	}
	return func() {
		l.Remove()
		_ = os.Remove(p.Dir()) // It stays if it contains a record.
	}, nil
}

// load returns the record at the place. If it was moved away, to is where.
func (p Place) load() (r *record.Record, to string, err error) {
	r, err = record.Load(p.Dir())
	if moved, ok := errors.AsType[*state.MovedError](err); ok {
		return nil, moved.To, nil
	}
	if r != nil && !record.Exists(p.Dir()) {
		err = nil // It may have states of a move that was killed.
	}
	if err == nil && p.Opts.Team != nil {
		r.KeepIn(p.store())
	}
	return r, "", err
}

// stateOf returns the place of the state of an instance: its path, its name, and how it is
// opened.
func (p Place) stateOf(r *record.Record, in *record.Instance) (path, name string, opts file.Options, err error) {
	path, opts = r.StatePath(in), p.Opts
	opts.Owns = r.Owns(in)
	if opts.Team == nil {
		path, err = filepath.Abs(path)
		return path, path, opts, err
	}
	opts.Team, err = opts.Team.Instance(in.State)
	if err != nil {
		return "", "", opts, err
	}
	return path, opts.Team.Place(), opts, nil
}

// Move moves the record of a deployment and the states of its instances to another place,
// and leaves notes in the old one. It first copies all, then writes the record in the new
// place, and then the notes, that of the record last: after a kill, the same command
// continues.
func Move(ctx context.Context, from, to Place) error {
	for _, p := range []Place{from, to} {
		unlock, err := p.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	old, gone, err := from.load()
	if err != nil {
		return err
	}
	if old == nil {
		return fmt.Errorf("cannot move the deployment: %w", &state.MovedError{To: gone})
	}
	there, was, err := to.load()
	switch {
	case err != nil:
		return err
	case was != "" && was != from.Name:
		return fmt.Errorf("cannot move the deployment to %s: the one that was there was moved to %s, and nothing was changed", to.Name, was)
	case there != nil && len(there.Instances) > 0 && !sameRecord(old, there):
		return fmt.Errorf("cannot move the deployment to %s: there is another one already; nothing was changed", to.Name)
	}
	if err := refuseBusy(ctx, from, old); err != nil {
		return err
	}
	moved := old.In(to.Dir(), to.store(), func(in *record.Instance) string {
		if in.Beside() {
			return record.Beside(to.Path)
		}
		return record.NewState(in, to.store())
	})
	if there != nil {
		moved.Serial = there.Serial
	}
	if err := eachMoved(ctx, from, to, old, moved, file.Copy); err != nil {
		return err
	}
	if there == nil || len(there.Instances) == 0 {
		if err := moved.Save(); err != nil {
			return err
		}
	}
	if err := eachMoved(ctx, from, to, old, moved, file.Move); err != nil {
		return err
	}
	if from.Opts.Team != nil {
		if err := from.Opts.Team.RemoveLinks(ctx); err != nil {
			return err
		}
	}
	if err := bringVersions(ctx, from, to); err != nil {
		return err
	}
	return old.Move(to.Name)
}

// refuseBusy returns an error if a process changes an instance: it may be left by a run
// that was killed. Copies of the other states would make the next move fail.
func refuseBusy(ctx context.Context, from Place, old *record.Record) error {
	for _, in := range slices.Concat(old.Instances, old.Former) {
		path, _, opts, err := from.stateOf(old, in)
		if err != nil {
			return err
		}
		by, err := busy(ctx, path, opts.Team)
		if err != nil {
			return err
		}
		if by != nil {
			return fmt.Errorf("%s: %w; nothing was moved", in.Name(), by)
		}
	}
	return nil
}

// busy returns who has locked a state: on this machine, or in its store, unless t is nil.
func busy(ctx context.Context, path string, t *team.Copy) (by, err error) {
	locked, err := file.LockedBy(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot find out whether another process has locked %s: %w", path, err)
	case locked != nil:
		return locked, nil
	case t == nil:
		return nil, nil
	}
	held, err := t.HeldByOther(ctx)
	if held != nil {
		by = held
	}
	return by, err
}

// sameRecord reports whether two records have the same instances.
func sameRecord(a, b *record.Record) bool {
	ids := func(r *record.Record) []string {
		var list []string
		for _, in := range slices.Concat(r.Instances, r.Former) {
			list = append(list, in.ID)
		}
		return slices.Sorted(slices.Values(list))
	}
	return slices.Equal(ids(a), ids(b))
}

// eachMoved calls do for the state of each instance that has one, and was not moved before
// a kill.
func eachMoved(ctx context.Context, from, to Place, old, moved *record.Record, do func(ctx context.Context, from, to, name string, fromOpts, toOpts file.Options) error) error {
	of, target := slices.Concat(old.Instances, old.Former), slices.Concat(moved.Instances, moved.Former)
	for i, in := range of {
		path, _, opts, err := from.stateOf(old, in)
		if err != nil {
			return err
		}
		toPath, toName, toOpts, err := to.stateOf(moved, target[i])
		if err != nil {
			return err
		}
		err = do(ctx, path, toPath, toName, opts, toOpts)
		if note, ok := errors.AsType[*state.MovedError](err); ok && note.To == toName {
			err = nil
		}
		if _, missing := errors.AsType[*file.MissingError](err); missing {
			err = nil // it was not created yet
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in.Name(), err)
		}
	}
	return nil
}
