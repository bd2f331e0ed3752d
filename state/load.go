package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// loaded is what reading a state file came to.
type loaded struct {
	current  State
	found    bool
	fresh    bool // nothing but this names the installation, and it was never written
	notes    []string
	warnings []error
	rescued  bool   // what an earlier run could not write is in current
	legacy   string // the file of an old bosh-init that current is from
}

func (l *loaded) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// load reads the state at path, in whatever format it is, completes it with
// what stands in other places, and checks it. It writes nothing.
func load(path string, opts Options) (loaded, error) {
	var l loaded
	data, err := readWhole(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := l.anew(path, opts); err != nil {
			return l, err
		}
	case err != nil:
		return l, fmt.Errorf("cannot read the deployment state: %w", err)
	default:
		l.found = true
		own := false
		if l.current, own, err = decode(data); err != nil {
			return l, fmt.Errorf("cannot use the deployment state %s: %w", path, err)
		}
		l.complete(path, opts.Home, own)
	}
	l.current.mend()
	if err := l.current.check(); err != nil {
		return l, fmt.Errorf("cannot use the deployment state %s: %w; nothing was changed: correct it, or bring back an earlier version with `bootstrap state restore`", path, err)
	}
	return l, nil
}

// anew makes a state where there is none: from the file of an old bosh-init,
// from what a run that could not write it left, or an empty one.
func (l *loaded) anew(path string, opts Options) error {
	// Whose numbers start below those of kept backups would lose them.
	serial := 0
	for _, b := range backupsOf(path) {
		serial = max(serial, b.Serial)
	}
	if data, err := readWhole(opts.Legacy); opts.Legacy != "" && err == nil {
		if l.current, err = fromDeploymentsYAML(data); err != nil {
			return fmt.Errorf("cannot take over the deployment state of bosh-init, %s: %w", opts.Legacy, err)
		}
		l.legacy = opts.Legacy
		l.note("The deployment state is that of the legacy deployments file '%s'", opts.Legacy)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && opts.Legacy != "" {
		return fmt.Errorf("cannot take over the deployment state of bosh-init: %w", err)
	}
	l.current.Own.Serial = serial
	l.fresh = l.current.InstallationID == ""
	l.identify()
	id := l.current.InstallationID
	l.recover(path, opts.Home)
	l.fresh = l.fresh && l.current.InstallationID == id
	return nil
}

// complete adds to a state that was read what it may lack.
func (l *loaded) complete(path, home string, own bool) {
	// A file that create-env has not saved yet may lack its ids.
	l.identify()
	if _, err := uuid.Parse(l.current.InstallationID); err != nil {
		return // check tells of it; no folder is named after it
	}
	if home != "" {
		l.reflect(path, home, own)
	}
	l.recover(path, home)
}

func (l *loaded) identify() {
	if l.current.DirectorID == "" {
		l.current.DirectorID = uuid.NewString()
	}
	if l.current.InstallationID == "" {
		l.current.InstallationID = uuid.NewString()
	}
}

// retire takes the file of an old bosh-init out of the way, once its content
// is in a state: after a delete it must not count again.
func retire(path string) error {
	if err := os.Rename(path, path+".migrated"); err != nil {
		return fmt.Errorf("cannot rename %s, whose content is in the deployment state now: %w", filepath.Base(path), err)
	}
	return nil
}
