package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"bootstrap/state"
)

// OpenToReplace locks a state like Open, for Replace. The state may be missing or damaged:
// Damaged returns why it cannot be used.
func OpenToReplace(ctx context.Context, path string, opts Options) (*Store, error) {
	s, err := lock(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.loaded, s.damaged = load(s.path, Options{Owns: opts.Owns})
	if isMoved(s.damaged) { // Otherwise two places would have a state of the same deployment.
		s.Close()
		return nil, s.damaged
	}
	return s, nil
}

// Damaged returns why the state cannot be used; nil: it can.
func (s *Store) Damaged() error { return s.damaged }

// Deleted lists resources that earlier versions record, and that were deleted: "VM vm-1".
func (s *Store) Deleted() []string { return slices.Sorted(maps.Keys(s.readGone())) }

// Replace makes another state the present one, under a new serial number. A damaged present
// one is kept as PATH.damaged, another one as a backup. deleted lists resources of the present
// one that do not exist.
func (s *Store) Replace(ctx context.Context, with state.State, deleted []string) error {
	if s.damaged != nil {
		if err := s.putAside(); err != nil {
			return err
		}
	}
	gone := maps.Clone(s.readGone()) // while the present version still exists, on which the list depends
	for _, what := range deleted {
		gone[what] = true
	}
	if err := s.writeGone(gone); err != nil {
		return err
	}
	l, err := s.archive().List(ctx)
	if err != nil {
		return err
	}
	newest, _ := l.Newest()
	with.DoubtNamed(s.current)
	return s.become(ctx, with, newest.Serial)
}

// putAside renames a damaged state.
func (s *Store) putAside() error {
	aside := s.path + ".damaged"
	if err := os.Rename(s.path, aside); err != nil {
		return fmt.Errorf("cannot put the damaged deployment state aside: %w", err)
	}
	s.loaded, s.gone, s.damaged = loaded{found: true}, readGone(s.path), nil
	s.note("The damaged deployment state is kept as %s", aside)
	return nil
}

// become writes a state under a serial number above the present one and the newest backup.
// The version of DNS records continues, too: agents accept only newer ones.
func (s *Store) become(ctx context.Context, with state.State, newest int) error {
	have, sent := s.current.Own.Serial, s.current.Own.DNSVersion
	s.current = with
	s.current.Own.Serial = have // the file's serial number, which becomes that of its backup
	if err := s.lockInstallation(ctx, s.current.InstallationID); err != nil {
		return err
	}
	return s.Update(func(st *state.State) error {
		st.Own.Serial = max(newest, have)
		st.Own.DNSVersion = max(st.Own.DNSVersion, sent)
		return nil
	})
}

// Parse returns the state that the content of a file describes.
func Parse(data []byte) (state.State, error) {
	st, _, err := state.Decode(data)
	if err != nil {
		return st, err
	}
	st.Identify()
	st.Repair()
	return st, st.Check()
}

// ReadText returns the content of a state file; nil: there is none.
func ReadText(path string) ([]byte, error) {
	data, err := readWhole(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
