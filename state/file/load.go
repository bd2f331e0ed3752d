package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"bootstrap/internal/failure"
	"bootstrap/state"
)

// loaded is the result of reading a state file.
type loaded struct {
	current  state.State
	found    bool
	foreign  bool // found, and written by another tool, which removes the program's own part
	fresh    bool // the id of the installation is new and was never written
	notes    []string
	warnings []error
	rescued  bool   // current contains results from a rescue file
	legacy   string // path of the bosh-deployments.yml from which current was made
}

func (l *loaded) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// load reads the state at path, in any format, adds the contents of the mirror and rescue
// files, and checks it. It writes nothing.
func load(path string, opts Options) (loaded, error) {
	var l loaded
	data, err := readWhole(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := l.start(path, opts); err != nil {
			return l, err
		}
	case err != nil:
		return l, fmt.Errorf("cannot read the deployment state: %w", err)
	default:
		l.found = true
		own := false
		if l.current, own, err = state.Decode(data); err != nil {
			return l, damaged(fmt.Errorf("cannot use the deployment state %s: %w", opts.name(path), err))
		}
		l.foreign = !own
		l.complete(path, opts.Home, own)
	}
	l.current.Repair()
	if err := l.current.Check(); err != nil {
		return l, damaged(fmt.Errorf("cannot use the deployment state %s: %w; nothing was changed: correct it, or restore an earlier version: `bootstrap state backups MANIFEST` lists them", opts.name(path), err))
	}
	if l.found && opts.Owns != nil {
		return l, opts.Owns(l.current)
	}
	return l, nil
}

func damaged(err error) error { return failure.Named("state-damaged", err) }

// start returns the state if there is no file: from a bosh-deployments.yml, from a
// rescue file, or an empty one.
func (l *loaded) start(path string, opts Options) error {
	// It starts above the serial numbers of backups; otherwise its own backups would be
	// pruned as the oldest.
	kept, err := archiveOf(path).List(context.Background())
	if err != nil {
		return err
	}
	newest, _ := kept.Newest()
	serial := max(newest.Serial, opts.Serial)
	if data, err := readWhole(opts.Legacy); opts.Legacy != "" && err == nil {
		if l.current, err = state.FromDeployments(data); err != nil {
			return fmt.Errorf("cannot take over the deployment state of bosh-init, %s: %w", opts.Legacy, err)
		}
		l.legacy = opts.Legacy
		l.note("The deployment state is that of the legacy deployments file '%s'", opts.Legacy)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && opts.Legacy != "" {
		return fmt.Errorf("cannot take over the deployment state of bosh-init: %w", err)
	}
	l.current.Own.Serial = serial
	l.fresh = l.current.InstallationID == ""
	if l.fresh {
		l.current.InstallationID = opts.Installation
	}
	l.current.Identify()
	id := l.current.InstallationID
	l.recover(path, opts.Home)
	l.fresh = l.fresh && l.current.InstallationID == id
	return nil
}

// complete adds the parts that a state may lack after reading. own is true if it contains
// the program's own part.
func (l *loaded) complete(path, home string, own bool) {
	l.current.Identify()
	if _, err := uuid.Parse(l.current.InstallationID); err != nil {
		return // Check refuses it; no folder may be named after it
	}
	if home != "" {
		l.compareMirror(path, home, own)
	}
	l.recover(path, home)
}

// retire renames a bosh-deployments.yml after its content was written to the state: after
// a delete it must not become the state again.
func retire(path string) error {
	if err := os.Rename(path, path+".migrated"); err != nil {
		return fmt.Errorf("cannot rename %s, whose content is in the deployment state: %w", filepath.Base(path), err)
	}
	return nil
}
