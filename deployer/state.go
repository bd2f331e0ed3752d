package deployer

import (
	"context"
	"fmt"
	"path/filepath"

	"bootstrap/state/file"
)

// openState locks and reads the state file, and reports migrations and repairs.
func (r *run) openState(ctx context.Context) (*file.Store, error) {
	return r.tellNotes(file.Open(ctx, r.statePath, r.stateOptions()))
}

// peekState reads the state file without locking it.
func (r *run) peekState() (*file.Store, error) {
	return r.tellNotes(file.OpenReadOnly(r.statePath, r.stateOptions()))
}

func (r *run) stateOptions() file.Options {
	opts := file.Options{
		Holder:  r.opts.Holder,
		Wait:    r.opts.LockWait,
		Home:    r.opts.Home,
		Waiting: func(l *file.LockedError) { r.root.Info(fmt.Sprintf("Waiting up to %v: %v", r.opts.LockWait, l)) },
		Warn:    func(err error) { r.root.Warning(err.Error()) },
		Trace:   r.opts.traceState(),
	}
	if r.opts.Manifest != "" {
		opts.Legacy = filepath.Join(filepath.Dir(r.opts.Manifest), file.LegacyName)
	}
	return opts
}

func (r *run) tellNotes(f *file.Store, err error) (*file.Store, error) {
	if err != nil {
		return nil, err
	}
	for _, note := range f.Notes() {
		r.root.Info(note)
	}
	return f, nil
}
