package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/lockfile"
	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/state/versions"
)

// UnsentError says that the last changes of the state were not sent to the store of the
// team.
type UnsentError struct {
	Place, Path string
	Err         error
}

func (e *UnsentError) Error() string {
	return fmt.Sprintf("cannot send the deployment state to %s: %v; this machine has it as %s", e.Place, e.Err, e.Path)
}

func (e *UnsentError) Name() string { return "state-unsent" }

func (e *UnsentError) ExitCode() failure.Code { return failure.Unsent }

func (e *UnsentError) Hint() string {
	if lost, ok := errors.AsType[*team.LostError](e.Err); ok {
		return lost.Hint()
	}
	return `run the same command again on this machine: it sends the state there first; "bootstrap state push MANIFEST" does only that`
}

func (e *UnsentError) Unwrap() error { return e.Err }

// Unsent returns an error if the last written state was not sent to the store of the
// team; nil: it was, or there is no store.
func (s *Store) Unsent() error {
	if s.unsent == nil {
		return nil
	}
	return &UnsentError{Place: s.opts.Team.Place(), Path: s.path, Err: s.unsent}
}

// Confirm returns an error if this run must not begin its next step: the store of the
// team lacks the state, or another run has taken the lease.
func (s *Store) Confirm(ctx context.Context) error {
	if err := s.Unsent(); err != nil {
		return err
	}
	return s.Lost(ctx)
}

// Lost returns an error if another run has taken the lease; nil: it has not.
func (s *Store) Lost(ctx context.Context) error { return s.opts.Team.Confirm(ctx) }

// begin takes the lease of the store and copies its state to the file. Before that, it
// sends changes that an earlier run of this machine could not send. taken is true if the
// lease was taken from a run that had not given it up.
func (s *Store) begin(ctx context.Context) (taken bool, err error) {
	t := s.opts.Team
	if taken, err = t.Lock(ctx); err != nil {
		return false, err
	}
	if err := t.Probe(ctx); err != nil {
		return taken, err
	}
	if err := pull(ctx, t, s.opts); err != nil {
		return taken, err
	}
	err = s.pullGone(ctx)
	if _, doubt := errors.AsType[*team.ProofError](err); doubt {
		return taken, err
	}
	s.warn(err)
	unsent, err := t.Unsent()
	if err != nil || !unsent {
		return taken, err
	}
	if err := s.owned(); err != nil {
		return taken, err
	}
	if err := t.Push(ctx); err != nil {
		return taken, &UnsentError{Place: t.Place(), Path: s.path, Err: err}
	}
	s.note("The changes that an earlier run on this machine could not send are in %s now", t.Place())
	return taken, nil
}

// pull copies the state from the store. This run must hold the lease.
func pull(ctx context.Context, t *team.Copy, opts Options) error {
	err := t.Pull(ctx)
	if lost, _ := team.Lost(err); lost != nil && opts.PutsBack {
		_, err = t.PutBack(ctx, serialOf(t), false)
	}
	return err
}

// serialOf returns the serial number of the copy of a state or a record; 0: there is none.
func serialOf(t *team.Copy) int {
	if t.IsRecord() {
		return recordAt(t.StatePath())
	}
	l, err := load(t.StatePath(), Options{})
	if err != nil || !l.found {
		return 0
	}
	return l.current.Own.Serial
}

// push writes the file to the store, after a write that removed the records of dropped.
// An error does not fail the step that wrote the file: Unsent reports it to the run.
func (s *Store) push(dropped ...string) {
	ctx := context.Background() // each request has a deadline
	if len(dropped) > 0 && s.unsent == nil {
		// The list is written first, as in Update. If that fails, finish repeats it.
		_ = s.opts.Team.AddGone(ctx, dropped)
	}
	s.unsent = s.opts.Team.Push(ctx)
}

// finish adds the state that this run wrote to the history of the store, and gives up
// the lease.
func (s *Store) finish() {
	ctx := context.Background()
	if s.unsent != nil {
		s.push()
	}
	if s.written && s.unsent == nil {
		s.keepVersion(ctx)
	}
	s.warn(s.opts.Team.Unlock(ctx))
}

// keepVersion adds the present version to the history of the store.
func (s *Store) keepVersion(ctx context.Context) {
	data, err := readWhole(s.path)
	if err != nil {
		return
	}
	docs := versions.Documents{versions.Snapshot: data}
	maps.Copy(docs, s.attached)
	s.warn(s.opts.Team.Keep(ctx, s.current.Own.Serial, docs, versions.Rules{Present: s.current.Resources(), Gone: goneList(s.readGone())}))
}

// pullGone adds deletions by other machines to this machine's list, because its backups
// may record the deleted resources.
func (s *Store) pullGone(ctx context.Context) error {
	h, err := s.opts.Team.History(ctx)
	if err != nil {
		return err
	}
	for _, v := range h.Versions {
		s.newest = max(s.newest, v.Serial)
	}
	gone := maps.Clone(s.readGone())
	for _, resource := range h.Gone {
		gone[resource] = true
	}
	s.gone = nil // The list must be read again.
	if len(gone) == len(readGone(s.path)) {
		return nil
	}
	return s.writeGone(gone)
}

// Refresh copies the state and the vars store from the store, without the lease, for commands
// that only read. It does nothing while another process of this machine uses the copy.
func Refresh(ctx context.Context, t *team.Copy) error {
	return whileUnused(t, func() error {
		err := t.Pull(ctx)
		lost, other := team.Lost(err)
		if _, conflict := errors.AsType[*team.ConflictError](err); other == nil || conflict {
			vars, failed := team.Lost(t.PullVars(ctx))
			if err = errors.Join(other, failed); err == nil {
				err = lost.With(vars).Err()
			}
		}
		return err
	})
}

// whileUnused calls pull, unless another process of this machine uses the copy, and removes the
// folder of a copy without a state.
func whileUnused(t *team.Copy, pull func() error) error {
	path := t.StatePath()
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of this machine's copy of %s: %w", t.Place(), err)
	}
	lock, err := lockfile.Try(path + ".lock")
	if err != nil || lock == nil {
		return err
	}
	err = pull()
	if found, failed := Exists(path); failed == nil && !found {
		lock.Remove()
		return errors.Join(err, t.Clean())
	}
	lock.Close()
	return err
}

// PullHistory copies earlier versions from the store to the backups of this machine,
// where they can be listed, compared and restored. Those of a folder are there.
func PullHistory(ctx context.Context, t *team.Copy) error {
	if t == nil {
		return nil
	}
	s := &Store{path: t.StatePath(), opts: Options{Team: t}}
	var err error
	if s.loaded, err = load(s.path, Options{}); err != nil {
		s.loaded = loaded{}
	}
	s.readGone() // before there are backups, on which the list depends
	err = versions.Pull(ctx, t.Versions(), s.archive(), func(versions.Version, versions.Version) bool { return true })
	if err != nil {
		return err
	}
	return s.pullGone(ctx)
}

// Push writes the copy of this machine to the store, after a run that could not, or if the
// store has lost it, with the versions that this machine has kept. If the store has changed
// since the copy was made, the error wraps team.ErrChanged, unless force is set. did is false
// if the store had the state already.
func Push(ctx context.Context, force bool, opts Options) (did bool, err error) {
	t := opts.Team
	s, err := lock(ctx, t.StatePath(), opts)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if _, err := t.Lock(ctx); err != nil {
		return false, err
	}
	if err := t.Probe(ctx); err != nil {
		return false, err
	}
	back, err := t.PutBack(ctx, serialOf(t), force)
	unsent := back
	if err == nil && !unsent {
		unsent, err = t.Unsent()
	}
	if err == nil && !unsent && force && fileExists(s.path) { // the store may contain a forged state
		_, doubt := t.Load(ctx)
		_, unsent = errors.AsType[*team.ProofError](doubt)
	}
	if err != nil || !unsent {
		return false, err
	}
	if force {
		if err := s.overwrite(ctx); err != nil {
			return false, err
		}
	}
	if !t.IsRecord() {
		if s.loaded, err = load(s.path, Options{}); err != nil {
			return false, err
		}
	}
	if err := t.Push(ctx); err != nil {
		return false, &UnsentError{Place: t.Place(), Path: s.path, Err: err}
	}
	s.written = !t.IsRecord()
	if back && s.written {
		s.warn(s.sendBackups(ctx, t))
	}
	return true, nil
}

// Pull copies the state from the store. It keeps changes that were not sent as a backup.
// kept is the path of the backup; empty: there were no changes.
func Pull(ctx context.Context, opts Options) (kept string, err error) {
	t := opts.Team
	s, err := lock(ctx, t.StatePath(), opts)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if unsent, err := t.Unsent(); err != nil || !unsent {
		return "", errors.Join(err, t.Pull(ctx))
	}
	data, err := readWhole(s.path)
	if err != nil {
		return "", err
	}
	kept = asideOf(s.path)
	if err := atomicfile.Write(kept, data); err != nil {
		return "", fmt.Errorf("cannot keep the changes that were not sent to %s: %w", t.Place(), err)
	}
	return kept, t.Discard(ctx)
}

// bringHistory copies the versions of a moved state to its new place, and removes those of a
// file. Versions that cannot be read stay.
func (s *Store) bringHistory(ctx context.Context, to, name string, opts Options) (err error) {
	if err := PullHistory(ctx, s.opts.Team); err != nil {
		return err
	}
	there, err := lock(ctx, to, opts)
	if err != nil {
		return err
	}
	defer there.Close()
	if _, err := opts.Team.Lock(ctx); err != nil {
		return err
	}
	from := s.opts.Archive(s.path)
	damaged, err := s.copyVersions(ctx, from, opts.Archive(to), name)
	if err != nil || !s.moved {
		return err
	}
	if err := versions.Clear(ctx, from, slices.Collect(maps.Keys(damaged))); err != nil || len(damaged) > 0 {
		return err
	}
	return os.RemoveAll(backupDir(s.path))
}

// sendBackups copies the versions of a state to the history of a store, whose lease this run
// holds.
func (s *Store) sendBackups(ctx context.Context, to *team.Copy) error {
	_, err := s.copyVersions(ctx, archiveOf(s.path), to.Versions(), to.Place())
	return err
}

// copyVersions copies the versions of the state from one archive to another one, which has a
// name for people. It leaves out damaged versions, which it returns.
func (s *Store) copyVersions(ctx context.Context, from, to versions.Archive, name string) (damaged map[int]error, err error) {
	gone, present := goneList(s.readGone()), s.current.Resources()
	damaged = map[int]error{}
	for _, v := range versionsOf(s.path, -1, nil, nil) {
		if v.Err != nil {
			damaged[v.Serial] = v.Err
		}
		present = append(present, v.State.Resources()...)
	}
	present = slices.DeleteFunc(present, func(r string) bool { return slices.Contains(gone, r) })
	rules := versions.Rules{Present: present, Gone: gone, Leave: func(v versions.Version, _ []byte) bool {
		if damaged[v.Serial] != nil {
			s.warn(fmt.Errorf("cannot move version %d of the deployment state to %s: %w; it stays", v.Serial, name, damaged[v.Serial]))
		}
		return damaged[v.Serial] != nil
	}}
	if err := versions.Copy(ctx, from, to, rules); err != nil {
		return nil, fmt.Errorf("cannot send the versions of %s to %s: %w; they stay in %s", s.path, name, err, backupDir(s.path))
	}
	return damaged, nil
}

// isMoved reports whether the error is a *state.MovedError.
func isMoved(err error) bool {
	_, moved := errors.AsType[*state.MovedError](err)
	return moved
}

func decodes(data []byte) error {
	_, _, err := state.Decode(data)
	return err
}

// name returns the place of the state for messages: the store, or the path.
func (o Options) name(path string) string { return cmp.Or(o.Team.Place(), team.PlaceOf(path), path) }

// touch writes the state under a new serial number, so that a run that lost the lease
// cannot write any more.
func (s *Store) touch() error { return s.Update(func(*state.State) error { return nil }) }
