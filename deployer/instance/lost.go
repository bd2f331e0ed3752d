package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/state/file"
)

// LostStateError says that a state is missing, although a backup of it records a VM that was
// not deleted.
type LostStateError struct {
	Instance string // one of several; empty: the manifest has one
	State    string // path of the state file, or the store
	Serial   int    // of the backup
	Written  time.Time
	Owned    []string // State.Owned of the backup
	Deploys  bool     // the command would create the VM
}

func (e *LostStateError) Error() string {
	would, then := "without the state, this command does not find them", "the same command finds that out"
	if e.Deploys {
		would, then = "a deploy would create a second VM beside that one", "the next deploy creates it again"
	}
	what, flag, forget := "the deployment state "+e.State, "", "; to forget the VM instead: `bootstrap state rm MANIFEST --force`"
	if e.Instance != "" {
		what, flag, forget = "the deployment state of "+e.Instance+", "+e.State+",", " --instance "+e.Instance, ""
	}
	return fmt.Sprintf("%s is missing, but its backup of %s records %s: %s; nothing was changed. `bootstrap state restore MANIFEST%s %d` restores the state; if the VM does not exist any more, %s%s",
		what, report.Minute(e.Written), strings.Join(e.Owned, ", "), would, flag, e.Serial, then, forget)
}

func (e *LostStateError) Name() string { return "record-lost" }

func (e *LostStateError) ExitCode() failure.Code { return failure.NoState }

// RefuseLost refuses to create a VM if the state was removed, but neither by a delete nor by
// another command that removed the VM from it.
func (l *Look) RefuseLost(ctx context.Context) error {
	if l.rec.State == nil || l.rec.State.Found() { // nil: validate reads no state
		return nil
	}
	err := l.rec.From.FindLost(ctx, l.rec.StatePath)
	if lost, ok := errors.AsType[*LostStateError](err); ok {
		lost.Deploys = true
	}
	return err
}

// FindLost returns a *LostStateError if the missing state at path was lost: a backup of it
// records a VM that no command has removed from it.
func (o Options) FindLost(ctx context.Context, path string) error {
	versions, err := file.Versions(path)
	if err != nil || len(versions) == 0 {
		return err
	}
	removed, err := o.removedElsewhere(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		vm := "VM " + v.State.CurrentVMCID
		if v.Err != nil || v.State.CurrentVMCID == "" || !slices.Contains(v.Only, vm) || v.Forgotten || removed(vm) {
			continue
		}
		lost := &LostStateError{State: o.StateName(path), Serial: v.Serial, Written: v.Written, Owned: v.State.Owned()}
		if o.Of != nil {
			lost.Instance = o.Of.Instance.Name()
		}
		return lost
	}
	return nil
}

// Missing returns the error for a state at path that does not exist: a *LostStateError, or a
// *file.MissingError.
func (o Options) Missing(ctx context.Context, path string) error {
	if err := o.FindLost(ctx, path); err != nil {
		return err
	}
	return file.Missing(o.StateName(path), o.Manifest)
}

// removedElsewhere returns a function that reports whether another machine has deleted a VM
// that backups of this one record: the store has the note of a delete, or lists the VM as
// gone.
func (o Options) removedElsewhere(ctx context.Context) (func(vm string) bool, error) {
	of, err := o.Team.Deleted(ctx)
	if err != nil || of != nil {
		return func(string) bool { return true }, err
	}
	h, err := o.Team.History(ctx)
	if err != nil {
		return nil, err
	}
	return func(vm string) bool { return slices.Contains(h.Gone, vm) }, nil
}

// ofInstance returns a flag that names one of several instances, for commands about its
// state; empty: the manifest has one instance.
func (l *Look) ofInstance() string {
	if l.rec.From.Of == nil {
		return ""
	}
	return " --instance " + l.rec.From.Of.Instance.Name()
}
