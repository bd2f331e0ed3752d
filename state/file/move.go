package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"bootstrap/internal/atomicfile"
	"bootstrap/state"
	"bootstrap/state/team"
)

// Move copies a state to another place, which must not have one, and leaves a marker in
// the old place that runs refuse. from and to are a file, or this machine's copy of a
// store; name is the place of to.
func Move(ctx context.Context, from, to, name string, fromOpts, toOpts Options) error {
	old, err := copyTo(ctx, from, to, name, fromOpts, toOpts)
	if err != nil {
		return err
	}
	defer old.Close()
	old.written = false // the marker is not a version of the state
	if err := atomicfile.Write(old.path, state.Moved(name)); err != nil {
		return fmt.Errorf("the deployment state is in %s now, but %s cannot be marked as moved: %w; remove it, or two people may use both", name, from, err)
	}
	old.push()
	if old.broughtKept {
		old.warn(fromOpts.Team.RemoveKept(ctx))
	}
	if !fromOpts.Team.LocksDeployment() {
		old.warn(fromOpts.Team.RemoveShared(ctx))
	}
	old.moved = fromOpts.Team == nil // A store keeps its history and its lock.
	old.warn(old.bringHistory(ctx, to, name, toOpts))
	return old.Unsent()
}

// Leave removes a state that was copied to another place with Copy, and its backups.
// Without it, no run finds the resources in the old place.
func Leave(ctx context.Context, from string, opts Options) error {
	old, err := Open(ctx, from, opts)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := opts.Team.Remove(ctx, old.current.InstallationID); err != nil {
		return err
	}
	if err := removeAll(backupDir(old.path), old.mirrorPath(), old.path); err != nil {
		return fmt.Errorf("cannot remove the deployment state that was moved: %w", err)
	}
	return opts.Team.Removed()
}

// Copy copies a state to another place, which must not have one, as the first part of
// Move.
func Copy(ctx context.Context, from, to, name string, fromOpts, toOpts Options) error {
	old, err := copyTo(ctx, from, to, name, fromOpts, toOpts)
	if err == nil {
		old.Close()
	}
	return err
}

// copyTo copies a state to another place, and returns the old one, open.
func copyTo(ctx context.Context, from, to, name string, fromOpts, toOpts Options) (_ *Store, err error) {
	old, err := Open(ctx, from, fromOpts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			old.Close()
		}
	}()
	if !old.Found() {
		return nil, Missing(cmp.Or(fromOpts.Team.Place(), from), "")
	}
	if err := Settled(old.current); err != nil {
		return nil, err
	}
	return old, old.put(ctx, to, name, toOpts)
}

// Settled returns an error if a run was interrupted while the CPI worked: the state cannot be
// moved.
func Settled(st state.State) error {
	if len(st.Own.Intents) == 0 {
		return nil
	}
	return fmt.Errorf("cannot move the deployment state: a run was interrupted while the CPI worked (%s): `bootstrap deploy MANIFEST` or `bootstrap delete MANIFEST` settles that first", st.Own.Intents[0].Method)
}

// put writes the state to a place without a state, or with the same one, and reads it back.
// A moved state may return to the place that its marker names. The documents that a store has
// for other machines go to the new store, or for a folder, into the record of this machine.
func (old *Store) put(ctx context.Context, path, name string, opts Options) error {
	from := cmp.Or(old.opts.Team.Place(), old.path)
	data, err := readWhole(old.path)
	if err != nil {
		return err
	}
	s, err := lock(ctx, path, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	have, err := readWhole(s.path)
	to, moved := errors.AsType[*state.MovedError](decodes(have))
	newest := s.newest // maybe of a deployment that was deleted there
	if err == nil && !moved {
		newest = team.SerialOf(s.path, have) - 1
	}
	raised, wrong := team.Raise(s.path, data, newest)
	if wrong != nil {
		return fmt.Errorf("cannot move the deployment state to %s: %w", name, wrong)
	}
	data = raised
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("cannot move the deployment state to %s: it is unknown whether there is one already: %w", name, err)
	case moved && to.To != from:
		return fmt.Errorf("cannot move the deployment state to %s: the state that was there was moved to %s, and nothing was changed; if nobody uses this place for it any more, `bootstrap state rm --force` with --state frees it", name, to.To)
	case !moved && !bytes.Equal(have, data):
		return fmt.Errorf("cannot move the deployment state to %s: there is one already; nothing was changed", name)
	}
	if err := s.write(data); err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", name, err)
	}
	if s.push(); s.unsent != nil {
		err := fmt.Errorf("cannot move the deployment state to %s: %w; run the same command again", name, errors.Join(s.unsent, s.putBack(have)))
		s.unsent = nil
		return err
	}
	if s.loaded, err = load(s.path, Options{}); err != nil {
		return err
	}
	has, err := opts.Team.Has(ctx, data)
	if err != nil {
		return err
	}
	if !has {
		return fmt.Errorf("cannot move the deployment state: %s does not contain what was written there", name)
	}
	s.written = true
	return old.bringSealed(ctx, opts, moved)
}

// bringSealed copies the documents that the old store has encrypted for machines. returns is
// true if the state was in the new place before.
func (old *Store) bringSealed(ctx context.Context, to Options, returns bool) error {
	t := old.opts.Team
	if to.Team != nil { // For a folder, this machine is the only one.
		err := t.CopyKept(ctx, to.Team)
		if err == nil && !t.LocksDeployment() {
			err = errors.Join(t.CopyShared(ctx, to.Team), t.CopyVars(ctx, to.Team, returns))
		}
		old.broughtKept = err == nil
		return err
	}
	text, err := t.KeptText(ctx)
	if err == nil && text != nil && to.Unpack != nil {
		err = to.Unpack(old.current.InstallationID, text)
		old.broughtKept = err == nil
	}
	return err
}

// putBack undoes a write to the copy that was not sent to the store. Otherwise the next
// run would send it, although the state is still in the old place. have is the file
// before; nil: there was none.
func (s *Store) putBack(have []byte) error {
	if have == nil {
		return os.Remove(s.path)
	}
	return s.write(have)
}
