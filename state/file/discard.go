package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"bootstrap/state/versions"
)

// Discard deletes the state file and its mirror and keeps its backups. Unless force is set, it
// refuses a damaged state, and a state that records something with an *OwnsError. If the file
// was lost and force is set, it notes that the resources in the backups are forgotten.
func Discard(ctx context.Context, path string, force bool, opts Options) error {
	if _, err := os.Stat(path); opts.Team == nil && !force && errors.Is(err, fs.ErrNotExist) {
		return &MissingError{Path: path}
	}
	s, err := lock(ctx, path, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	if exists, err := Exists(s.path); err == nil && !exists {
		if force {
			if did, err := s.forget(); did || err != nil {
				return err
			}
		}
		return &MissingError{Path: opts.name(s.path)}
	}
	s.loaded, err = load(s.path, opts)
	switch {
	case err != nil && !force:
		return fmt.Errorf("%w; --force removes it as it is", err)
	case err == nil && !s.found:
		return &MissingError{Path: opts.name(s.path)}
	case err == nil:
		if owned := s.current.Owned(); len(owned) > 0 && !force {
			return &OwnsError{Path: opts.name(s.path), Owned: owned}
		}
		if err := s.lockInstallation(ctx, s.current.InstallationID); err != nil {
			return err
		}
		s.warn(s.backUp(versions.Version{}, nil))
	}
	mirror := ""
	if err == nil {
		mirror = s.mirrorPath()
	}
	if err == nil { // the file can be read
		s.keepVersion(ctx)
	}
	if err := opts.Team.Forget(ctx, s.current.InstallationID); err != nil {
		return err
	}
	if err := removeAll(s.path, mirror); err != nil {
		return fmt.Errorf("cannot remove the deployment state: %w", err)
	}
	if _, err := s.forget(); err != nil {
		return err
	}
	return opts.Team.Removed()
}

// OwnsError says that a state is not deleted or replaced because it is the only record
// of resources in the cloud.
type OwnsError struct {
	Path  string
	Owned []string // as State.Owned lists it
}

func (e *OwnsError) Error() string {
	return fmt.Sprintf("the deployment state %s is the only record of %s: --force forgets them, and they stay in the cloud", e.Path, strings.Join(e.Owned, ", "))
}

func (e *OwnsError) Name() string { return "state-owns" }
