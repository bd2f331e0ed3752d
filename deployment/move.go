package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"bootstrap/deployer/instance"
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
	Opts file.Options
	// One is true if there is no record, or if the state at Path is meant alone.
	One bool
}

// Dir returns the folder of the record.
func (p Place) Dir() string {
	return cmp.Or(p.Opts.Team.RecordFolder(), record.DirOf("", p.Path))
}

// lock locks the deployment at the place.
func (p Place) lock(ctx context.Context) (unlock func(), err error) {
	l, err := file.LockRecord(ctx, p.Opts.Team, record.LockPath(p.Dir()), p.Opts)
	if err != nil {
		return nil, err
	}
	return func() { l.Unlock(ctx, p.Opts.Warn) }, nil
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
	if err == nil {
		r.KeepIn(p.Opts.Team)
	}
	return r, "", err
}

// stateOf returns the place of the state of an instance: its path, its name, and how it is
// opened.
func (p Place) stateOf(r *record.Record, in *record.Instance) (path, name string, opts file.Options, err error) {
	path, opts = r.StatePath(in), p.Opts
	opts.Owns = r.Owns(in)
	if opts.Team, err = opts.Team.Instance(in.State); err == nil {
		path, err = filepath.Abs(path)
	}
	return path, cmp.Or(opts.Team.Place(), path), opts, err
}

// Move moves the states of a deployment to another place, and leaves notes in the old one:
// those of its instances, and of compilation VMs that a killed run has left. It first
// copies all, then writes the record of several instances in the new place, and then the
// notes, that of the record last: after a kill, the same command continues.
func Move(ctx context.Context, from, to Place) error {
	m := &move{from: from, to: to}
	compiled := instance.Options{Team: from.Opts.Team, StateFile: from.Path}
	workers, err := compiled.WorkersLeft(ctx)
	if err != nil {
		return err
	}
	if !record.Exists(from.Dir()) && workers == 0 {
		return file.Move(ctx, from.Path, to.Path, to.Name, from.Opts, to.Opts)
	}
	defer compiled.ForgetWorkers() // The folder may have been only for the states of those VMs.
	for _, p := range []Place{from, to} {
		unlock, err := p.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := m.find(workers); err != nil {
		return err
	}
	if err := m.refuse(ctx); err != nil {
		return err
	}
	counted := false
	if err := m.each(func(p *part) error {
		if p.worker && !counted {
			if err := to.Opts.Team.SaveWorkers(ctx, workers); err != nil {
				return err
			}
			counted = true
		}
		return file.Copy(ctx, p.from.path, p.to.path, p.to.name, p.from.opts, p.to.opts)
	}); err != nil {
		return err
	}
	if m.several && !m.continues {
		if err := m.moved.Save(); err != nil {
			return err
		}
	}
	if err := m.leave(ctx); err != nil || !m.several {
		return err
	}
	if err := bringVersions(ctx, from, to); err != nil {
		return err
	}
	return m.old.Move(to.Name)
}

// move is a move of a deployment.
type move struct {
	from, to   Place
	several    bool // the deployment has a record of several instances
	old, moved *record.Record
	returns    bool    // the deployment was in the new place before
	continues  bool    // the new place has the record already
	parts      []*part // instances, former ones and compilation VMs
}

// part is an instance or a compilation VM whose state is moved.
type part struct {
	name     string // empty: the only instance
	worker   bool
	from, to stateAt
}

// stateAt is the place of a state: its path, its name, and how it is opened.
type stateAt struct {
	path, name string
	opts       file.Options
}

// find finds what is moved, and refuses a new place with another deployment.
func (m *move) find(workers int) error {
	old, gone, err := m.from.load()
	if err != nil {
		return err
	}
	if old == nil {
		return fmt.Errorf("cannot move the deployment: %w", &state.MovedError{To: gone})
	}
	m.old, m.several = old, record.Exists(m.from.Dir())
	there, was, err := m.to.load()
	switch {
	case err != nil:
		return err
	case was != "" && was != m.from.Name:
		return fmt.Errorf("cannot move the deployment to %s: the one that was there was moved to %s, and nothing was changed", m.to.Name, was)
	case there != nil && len(there.Instances) > 0 && !sameRecord(old, there):
		return fmt.Errorf("cannot move the deployment to %s: there is another one already; nothing was changed", m.to.Name)
	}
	m.returns = was != ""
	m.moved = old.In(m.to.Dir(), m.to.Opts.Team, func(in *record.Instance) string {
		if in.Beside() {
			return record.Beside(m.to.Path)
		}
		return record.NewState(in, m.to.Opts.Team)
	})
	if there != nil {
		m.moved.Serial, m.continues = there.Serial, len(there.Instances) > 0
	}
	list, targets := slices.Concat(old.Instances, old.Former), slices.Concat(m.moved.Instances, m.moved.Former)
	if !m.several {
		list = []*record.Instance{{State: record.Beside(m.from.Path)}}
		targets = []*record.Instance{{State: record.Beside(m.to.Path)}}
	}
	list = append(list, instance.WorkersIn(m.from.Opts.Team, workers)...)
	targets = append(targets, instance.WorkersIn(m.to.Opts.Team, workers)...)
	for i, in := range list {
		p := &part{worker: i >= len(list)-workers}
		if in.Group != "" {
			p.name = in.Name()
		}
		if p.from.path, p.from.name, p.from.opts, err = m.from.stateOf(old, in); err == nil {
			p.to.path, p.to.name, p.to.opts, err = m.to.stateOf(m.moved, targets[i])
		}
		if err != nil {
			return err
		}
		m.parts = append(m.parts, p)
	}
	return nil
}

// refuse returns an error if a process changes a part, which may be left by a run that was
// killed, or if a part cannot be moved now. Copies of the others would make the next move
// fail.
func (m *move) refuse(ctx context.Context) error {
	return m.each(func(p *part) error {
		by, err := busy(ctx, p.from.path, p.from.opts.Team)
		if err != nil {
			return err
		}
		if by != nil {
			return fmt.Errorf("%w; nothing was moved", by)
		}
		if p.worker {
			if err := file.RefreshPart(ctx, p.from.opts.Team); err != nil {
				return err
			}
		}
		st, _, err := file.Read(p.from.path, p.from.opts.Home)
		if err != nil {
			return err
		}
		return file.Settled(st)
	})
}

// leave leaves notes in place of the states of instances, and removes those of compilation
// VMs, which the next run there would look for.
func (m *move) leave(ctx context.Context) error {
	err := m.each(func(p *part) error {
		if p.worker {
			return file.Leave(ctx, p.from.path, p.from.opts)
		}
		return file.Move(ctx, p.from.path, p.to.path, p.to.name, p.from.opts, p.to.opts)
	})
	t := m.from.Opts.Team
	if err == nil {
		err = errors.Join(t.CopyShared(ctx, m.to.Opts.Team), t.CopyVars(ctx, m.to.Opts.Team, m.returns))
	}
	if err != nil {
		return err
	}
	return errors.Join(t.RemoveShared(ctx), t.RemoveWorkers(ctx))
}

// each calls do for each part that has a state which was not moved before a kill.
func (m *move) each(do func(*part) error) error {
	for _, p := range m.parts {
		err := do(p)
		if note, ok := errors.AsType[*state.MovedError](err); ok && note.To == p.to.name {
			err = nil
		}
		if _, missing := errors.AsType[*file.MissingError](err); missing {
			err = nil // it was not created yet
		}
		if err != nil && p.name != "" {
			err = fmt.Errorf("%s: %w", p.name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// busy returns who has locked a state: on this machine, or in its store.
func busy(ctx context.Context, path string, t *team.Copy) (by, err error) {
	locked, err := file.LockedBy(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot find out whether another process has locked %s: %w", path, err)
	case locked != nil:
		return locked, nil
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
