package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/state/file"
)

// LostStateError says that the state of one of several instances is missing, although a
// backup of it records a VM that was not deleted.
type LostStateError struct {
	Instance string
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
	return fmt.Sprintf("the deployment state of %s, %s, is missing, but its backup of %s records %s: %s; nothing was changed. `bootstrap state restore MANIFEST --instance %s %d` restores the state; if the VM does not exist any more, %s",
		e.Instance, e.State, report.Minute(e.Written), strings.Join(e.Owned, ", "), would, e.Instance, e.Serial, then)
}

func (e *LostStateError) Name() string { return "record-lost" }

// refuseLost refuses to create the VM of one of several instances if its state was removed,
// but neither by a delete nor by another command that removed the VM from it.
func (l *Look) refuseLost(ctx context.Context) error {
	if l.rec.State.Found() {
		return nil
	}
	err := l.rec.From.FindLost(ctx, l.rec.StatePath)
	if lost, ok := errors.AsType[*LostStateError](err); ok {
		lost.Deploys = true
	}
	return err
}

// FindLost returns a *LostStateError if the missing state at path, of one of several
// instances, was lost: a backup of it records a VM that no command has removed from it.
func (o Options) FindLost(ctx context.Context, path string) error {
	if o.Of == nil {
		return nil
	}
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
		if v.Err != nil || v.State.CurrentVMCID == "" || !slices.Contains(v.Only, vm) || removed(vm) {
			continue
		}
		return &LostStateError{
			Instance: o.Of.Instance.Name(), State: o.StateName(path),
			Serial: v.Serial, Written: v.Written, Owned: v.State.Owned(),
		}
	}
	return nil
}

// removedElsewhere returns a function that reports whether another machine has deleted a VM
// that backups of this one record: the store lists it as gone, or has no versions at all, as
// after a delete.
func (o Options) removedElsewhere(ctx context.Context) (func(vm string) bool, error) {
	if o.Team == nil {
		return func(string) bool { return false }, nil
	}
	h, err := o.Team.History(ctx)
	if err != nil {
		return nil, err
	}
	return func(vm string) bool { return len(h.Versions) == 0 || slices.Contains(h.Gone, vm) }, nil
}

// ofInstance returns a flag that names one of several instances, for commands about its
// state; empty: the manifest has one instance.
func (l *Look) ofInstance() string {
	if l.rec.From.Of == nil {
		return ""
	}
	return " --instance " + l.rec.From.Of.Instance.Name()
}
