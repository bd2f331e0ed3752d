package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bootstrap/state/team"
)

// owned returns an error about a state of another instance in this machine's copy, before it
// is sent to the store. Open reports a state that cannot be read.
func (s *Store) owned() error {
	l, err := load(s.path, Options{})
	if err != nil || !l.found || s.opts.Owns == nil {
		return nil
	}
	return s.opts.Owns(l.current)
}

// overwrite makes this machine's copy replace any version in the store. It gets a serial number
// above those of the history: other machines would take it for an old one.
func (s *Store) overwrite(ctx context.Context) error {
	t := s.opts.Team
	newest, err := t.Newest(ctx)
	if _, doubt := errors.AsType[*team.ProofError](err); err != nil && !doubt { // The history may be forged, too.
		return err
	}
	data, err := readWhole(s.path)
	if err != nil {
		return err
	}
	raised, err := team.Raise(s.path, data, newest)
	if err == nil && !bytes.Equal(raised, data) {
		err = s.write(raised)
	}
	if err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", s.path, err)
	}
	return t.Overwrite(ctx)
}
