package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Discard deletes the state file and its mirror, also a damaged one if force
// is set; its backups stay. A state that records something is refused unless
// force is set.
func Discard(ctx context.Context, path string, force bool, opts Options) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &MissingError{Path: path}
	}
	f, err := lockOnly(ctx, path, opts)
	if err != nil {
		return err
	}
	defer f.Close()
	f.loaded, err = load(f.path, opts)
	switch {
	case err != nil && !force:
		return fmt.Errorf("%w; --force removes it as it is", err)
	case err == nil && !f.found:
		return &MissingError{Path: f.path}
	case err == nil:
		if owned := f.current.Owned(); len(owned) > 0 && !force {
			return &OwnsError{Path: f.path, Owned: owned}
		}
		if err := f.lockInstallation(ctx, f.current.InstallationID); err != nil {
			return err
		}
		f.warn(f.backUp())
	}
	mirror := ""
	if err == nil {
		mirror = f.mirrorPath()
	}
	if err := removeAll(f.path, mirror); err != nil {
		return fmt.Errorf("cannot remove the deployment state: %w", err)
	}
	return nil
}

// OwnsError says that a state cannot go because it is the only record of
// things in the cloud.
type OwnsError struct {
	Path  string
	Owned []string // as State.Owned tells
}

func (e *OwnsError) Error() string {
	return fmt.Sprintf("the deployment state %s is the only record of %s: --force forgets them, and they stay in the cloud", e.Path, strings.Join(e.Owned, ", "))
}

// Owned lists what the state records in the cloud, each with what it is.
func (s *State) Owned() []string {
	var list []string
	if s.CurrentVMCID != "" {
		list = append(list, "VM "+s.CurrentVMCID)
	}
	if s.Own.Swap != nil {
		list = append(list, "VM "+s.Own.Swap.CID)
	}
	for _, d := range s.Disks {
		list = append(list, "disk "+d.CID)
	}
	for _, o := range s.Own.Orphans {
		list = append(list, "disk "+o.CID+" (kept)")
	}
	for _, r := range s.Stemcells {
		list = append(list, "stemcell "+r.CID)
	}
	for _, c := range s.Own.Snapshots {
		list = append(list, "snapshot "+c.CID)
	}
	for _, in := range s.Own.Intents {
		list = append(list, "an unfinished "+in.Method)
	}
	for _, l := range s.Own.Leftovers {
		list = append(list, "a leftover of "+l.Method)
	}
	return list
}

// Idle tells that no deploy is under way or was cut: everything that one makes
// and uses was deleted, or was never made. What is kept on purpose may be there.
func (s *State) Idle() bool {
	return s.CurrentVMCID == "" && s.CurrentManifestSHA == "" && s.Own.Swap == nil &&
		len(s.Disks) == 0 && len(s.Stemcells) == 0 && len(s.Own.Intents) == 0
}
