package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/state"
)

// SecondDiskError says that a VM's agent stopped answering after a second disk
// was attached, which a migration needs, or refused that disk.
type SecondDiskError struct {
	VM       string
	Disk     string // the disk with the data
	Detached bool   // the second disk was detached, and the agent answers again
	New      bool   // the VM was new: another new VM would not help
	Refused  bool   // the agent answers, and does not accept the second disk
	Err      error
}

func (e *SecondDiskError) Error() string {
	what := "did not answer again after attach_disk of a second disk"
	if e.Refused {
		what = "does not accept a second disk"
	}
	text := fmt.Sprintf("the data of disk %s cannot be moved to a new disk: the agent of VM %s %s: %v", e.Disk, e.VM, what, e.Err)
	switch {
	case e.Detached && e.Refused:
		text += "; the second disk was detached again"
	case e.Detached:
		text += "; the second disk was detached again, and the agent answers"
	}
	return text + "; the data is unchanged, and the jobs are stopped"
}

func (e *SecondDiskError) Name() string { return "disk-second" }

func (e *SecondDiskError) ExitCode() failure.Code { return failure.Agent }

func (e *SecondDiskError) Unwrap() error { return e.Err }

func (e *SecondDiskError) Hint() string {
	if e.New {
		return plan.NextKeepDisk
	}
	return `run "bootstrap deploy MANIFEST" again: it creates a new VM and moves the data there`
}

// attachSecond attaches the new disk of a migration, in addition to the mounted one. If
// the agent stops answering or refuses it, it detaches the new disk again.
func (ds *disks) attachSecond(ctx context.Context, step plan.Step, old, d state.Disk) error {
	err := ds.attach(ctx, step, d)
	if err == nil {
		_ = ds.rec.Folder().DropSecondDisk() // The CPI can attach a second disk, so the record is removed.
		return nil
	}
	_, silent := errors.AsType[*agent.UnreachableError](err)
	_, refused := errors.AsType[*agent.Error](err)
	if !silent && !refused || ctx.Err() != nil {
		return err
	}
	vm := ds.vm
	now := kept.SecondDisk{CPI: ds.artifacts.CPIReleases(), When: time.Now().UTC().Truncate(time.Second), New: step.With.New}
	if silent {
		now.Lost = vm
	}
	ds.cpi.KeepSecondDisk(now)
	failed := &SecondDiskError{VM: vm, Disk: old.CID, New: now.New, Refused: refused, Err: err}
	undone := ds.rec.Out.Do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(s *report.Stage) error {
		if refused {
			// Otherwise the agent would look for the disk at its next start. It may not know it.
			_ = script(ds.agent.RemovePersistentDisk(ctx, d.CID))
		}
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, vm, d.CID); err != nil {
			return err
		}
		return ds.awaitAgent(ctx, s, ds.agent, ds.restartTime(), "detach_disk, for which some CPIs restart the VM")
	})
	if undone == nil {
		failed.Detached, now.Lost = true, ""
		ds.cpi.KeepSecondDisk(now)
	}
	return failed
}
