package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// recallSecondDisk returns what this machine remembers about attaching a second
// disk with this CPI; the zero value: nothing.
func (r *run) recallSecondDisk() kept.SecondDisk {
	if r.manifest == nil {
		return kept.SecondDisk{}
	}
	return r.folder().SecondDisk(r.cpiReleases())
}

func (r *run) keepSecondDisk(s kept.SecondDisk) {
	if err := r.folder().SetSecondDisk(s); err != nil {
		r.root.Warning(fmt.Sprintf("cannot save that the CPI cannot attach a second disk: %v", err))
	}
}

// cpiReleases returns the releases of the CPI, as name/version.
func (r *run) cpiReleases() []string {
	var list []string
	for _, t := range r.manifest.CPI.Templates {
		if rel := r.releases[t.Release]; rel != nil {
			list = append(list, rel.Name+"/"+rel.Version)
		}
	}
	return list
}

// lostToSecondDisk reports whether the VM went silent when a second disk was
// attached: a run may repair that without --fix.
func (r *run) lostToSecondDisk(vm string) bool {
	return vm != "" && r.recallSecondDisk().Lost == vm
}

// SecondDiskError says that a VM's agent did not answer any more after a second
// disk was attached, which a migration needs.
type SecondDiskError struct {
	VM       string
	Disk     string // the disk with the data
	Detached bool   // the second disk was detached, and the agent answers again
	New      bool   // the VM was new, so another new VM does not help
	Err      error
}

func (e *SecondDiskError) Error() string {
	text := fmt.Sprintf("the data of disk %s cannot be moved to a new disk: the agent of VM %s did not come back after attach_disk of a second disk: %v", e.Disk, e.VM, e.Err)
	if e.Detached {
		text += "; the second disk was detached again, and the agent answers"
	}
	return text + "; the data is unchanged, and the jobs are stopped"
}

func (e *SecondDiskError) Unwrap() error { return e.Err }

// Next returns what to do; MANIFEST stands for the deployment's arguments.
func (e *SecondDiskError) Next() string {
	if e.New {
		return NextKeepDisk
	}
	return `run "bootstrap deploy MANIFEST" again: it creates a new VM and moves the data there`
}

// NextKeepDisk is what to do where no second disk can be attached; MANIFEST
// stands for the deployment's arguments.
const NextKeepDisk = `set size and cloud_properties of the persistent disk back to what they were, and run "bootstrap deploy MANIFEST"; with another version of the CPI, or with --recreate-persistent-disks, the deploy tries a second disk again`

// attachSecond attaches the new disk of a migration, beside the mounted one. If
// the agent does not answer any more, it detaches the new disk again.
func (r *run) attachSecond(ctx context.Context, old, d state.Disk) error {
	err := r.attachDisk(ctx, d)
	if err == nil {
		_ = r.folder().DropSecondDisk() // the CPI can attach a second disk
		return nil
	}
	if _, silent := errors.AsType[*agent.UnreachableError](err); !silent || ctx.Err() != nil {
		return err
	}
	vm := r.state.Get().CurrentVMCID
	now := kept.SecondDisk{CPI: r.cpiReleases(), When: time.Now().UTC().Truncate(time.Second), New: r.plan.NewVM(), Lost: vm}
	r.keepSecondDisk(now)
	failed := &SecondDiskError{VM: vm, Disk: old.CID, New: now.New, Err: err}
	undone := r.do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(s *report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, vm, d.CID); err != nil {
			return err
		}
		return r.awaitAgent(ctx, s, r.agent, min(rebootTimeout, r.opts.AgentTimeout), "detach_disk, for which some CPIs restart the VM")
	})
	if undone == nil {
		failed.Detached, now.Lost = true, ""
		r.keepSecondDisk(now)
	}
	return failed
}

// foundAgain forgets that the VM was lost, because its agent answers.
func (r *run) foundAgain(vm string) {
	if now := r.recallSecondDisk(); now.Lost == vm && vm != "" && r.scratch == "" {
		now.Lost = ""
		r.keepSecondDisk(now)
	}
}
