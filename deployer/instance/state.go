package instance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/internal/scratch"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/versions"
)

// Lock locks and reads the state file, and creates the folder of its deployment.
func (t *Instance) Lock(ctx context.Context) error {
	var err error
	t.State, err = t.openState(ctx)
	if err != nil {
		return err
	}
	t.AtEnd(t.unlock)
	if err := t.findFolders(ctx); err != nil {
		return err
	}
	t.AtEnd(func() { t.Shared.Send(context.WithoutCancel(ctx)) })
	if err := t.Folder().Check(); err != nil {
		return err
	}
	t.sweep()
	return nil
}

// sweep removes the files of a killed run: they may contain secrets or be large. While
// the state is locked, no other run uses the folder.
func (rec *Record) sweep() {
	rec.Folder().RemoveStale()
	left := rec.forgottenReplies()
	for _, pattern := range []string{"rendered-*", "stemcell-*"} {
		found, err := filepath.Glob(filepath.Join(rec.Dir, pattern))
		if err == nil { // HOME may contain brackets, which Glob would interpret.
			left = append(left, found...)
		}
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			rec.Out.Warning(fmt.Sprintf("cannot remove the files of a killed run, which may contain secrets: %v", err))
		}
	}
}

// forgottenReplies returns replies of the CPI whose results are in the state: a run was
// killed before it removed them. If another tool has written the state, it may have lost
// the results, so none is returned.
func (rec *Record) forgottenReplies() []string {
	st := rec.State.Get()
	dir := filepath.Join(rec.Dir, "replies")
	entries, err := os.ReadDir(dir)
	if err != nil || st.Own.Serial == 0 {
		return nil
	}
	var list []string
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".")
		if !slices.ContainsFunc(st.Own.Intents, func(in state.Intent) bool { return in.ID == id }) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// findFolders opens this machine's folder of the deployment.
func (t *Instance) findFolders(ctx context.Context) error {
	st := t.State.Get()
	t.Installation = st.Installation()
	return t.UseInstallation(ctx, st)
}

// unlock unlocks the state. If the state was never written, it removes the folder, which
// may contain secrets: no later run will use it.
func (rec *Record) unlock() {
	if rec.State == nil {
		return
	}
	if rec.State.Fresh() {
		if err := os.RemoveAll(rec.Dir); err != nil {
			rec.Out.Warning(fmt.Sprintf("cannot remove the folder %s of this run, which may contain secrets: %v", rec.Dir, err))
		}
	}
	if rec.Dir != "" {
		if sketch := rec.Folder().SketchOf(rec.State.Get()); sketch != nil {
			rec.State.Attach(versions.Manifest, sketch)
		}
	}
	rec.State.Close()
}

// Peek reads the state without locking it, for a run that changes nothing.
func (t *Instance) Peek(ctx context.Context) error {
	var err error
	if t.State, err = t.peekState(); err != nil {
		return err
	}
	if err := t.findFolders(ctx); err != nil {
		return err
	}
	folder, err := scratch.New("", "plan")
	if err != nil {
		return fmt.Errorf("cannot make a folder for the CPI of the plan: %w", err)
	}
	t.Scratch = folder.Path
	t.AtEnd(func() { t.removeScratch(folder) })
	return nil
}

// removeScratch removes the CPI that a plan has installed, because it contains
// secrets.
func (rec *Record) removeScratch(folder *scratch.Folder) {
	if err := folder.Remove(); err != nil {
		rec.Out.Warning(fmt.Sprintf("cannot remove the folder %s of this plan, which may contain secrets: %v", rec.Scratch, err))
	}
}

// openState locks and reads the state file, and reports migrations and repairs.
func (rec *Record) openState(ctx context.Context) (*file.Store, error) {
	return rec.reportNotes(file.Open(ctx, rec.StatePath, rec.stateOptions()))
}

// peekState reads the state file without locking it.
func (rec *Record) peekState() (*file.Store, error) {
	return rec.reportNotes(file.OpenReadOnly(rec.StatePath, rec.stateOptions()))
}

func (rec *Record) stateOptions() file.Options {
	opts := file.Options{
		Holder:  rec.Env.Holder,
		Wait:    rec.Env.LockWait,
		Home:    rec.Env.Home,
		Team:    rec.From.Team,
		Waiting: func(l *file.LockedError) { rec.Out.Info(fmt.Sprintf("Waiting up to %v: %v", rec.Env.LockWait, l)) },
		Warn:    func(err error) { rec.Out.Warning(err.Error()) },
		Trace:   rec.Env.traceState(),
	}
	rec.From.OwnState(&opts)
	if rec.From.Manifest != "" && (rec.From.Of == nil || rec.From.Of.Instance.Beside()) {
		opts.Legacy = filepath.Join(filepath.Dir(rec.From.Manifest), file.LegacyName)
	}
	return opts
}

func (rec *Record) reportNotes(f *file.Store, err error) (*file.Store, error) {
	if err != nil {
		return nil, err
	}
	for _, note := range f.Notes() {
		rec.Out.Info(note)
	}
	return f, nil
}
