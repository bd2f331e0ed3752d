package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/state"
)

// provideFirstDisk creates the first disk and attaches it, while the jobs are
// stopped.
func (r *run) provideFirstDisk(ctx context.Context) error {
	d, err := r.createDisk(ctx, r.manifest.Group.Disk)
	if err != nil {
		return err
	}
	if err := r.attachDisk(ctx, d); err != nil {
		return err
	}
	return r.makeCurrent(d)
}

// attachCurrentDisk attaches the recorded disk to the VM.
func (r *run) attachCurrentDisk(ctx context.Context) error {
	st := r.state.Get()
	return r.attachDisk(ctx, *st.Disk())
}

// changeOrMigrateDisk asks the CPI to change the disk, or else moves its
// content to a new one, as the step says. The old disk is deleted only when the
// deploy has succeeded.
func (r *run) changeOrMigrateDisk(ctx context.Context, s plan.Step) error {
	st := r.state.Get()
	have := *st.Disk()
	changed, err := r.changeDisk(ctx, have, *s.Disk)
	if err != nil || changed {
		return err
	}
	if err := r.attachDisk(ctx, have); err != nil {
		return err
	}
	return r.migrateDisk(ctx, have, "")
}

// migrateCurrentDisk moves the content of the disk to a new one.
func (r *run) migrateCurrentDisk(ctx context.Context, s plan.Step) error {
	st := r.state.Get()
	have := *st.Disk()
	if !s.Disk.Mounted {
		if err := r.attachDisk(ctx, have); err != nil {
			return err
		}
	}
	return r.migrateDisk(ctx, have, s.Disk.Begun)
}

// keepUnwantedDisk records the disk as an orphan; the new VM is created without
// it.
func (r *run) keepUnwantedDisk(context.Context) error {
	return r.state.Update(func(st *state.State) error {
		st.Orphan(*st.Disk(), "the manifest asked for no persistent disk any more", time.Now())
		return nil
	})
}

// changeDisk detaches the disk and asks the CPI to change it. changed is false
// if the CPI cannot do that.
func (r *run) changeDisk(ctx context.Context, have state.Disk, work plan.DiskWork) (changed bool, err error) {
	want, mounted := r.manifest.Group.Disk, work.Mounted
	vm := r.state.Get().CurrentVMCID
	if mounted {
		if err := r.do(fmt.Sprintf("Unmounting disk '%s'", have.CID), func(*report.Stage) error { return r.agent.UnmountDisk(ctx, have.CID) }); err != nil {
			return false, err
		}
	}
	if !r.plan.NewVM() {
		// The agent keeps the disk in its settings: an agent whose only disk
		// was removed from them does not survive its next start. A disk that is
		// not mounted may still be attached, by an interrupted run. Each CPI
		// has its own error for one that is not attached.
		if err := r.detachDisk(ctx, vm); err != nil {
			if mounted {
				return false, err
			}
			r.root.Info(fmt.Sprintf("Assuming that disk '%s' is not attached: %v", have.CID, err))
		}
		if err := r.awaitDetached(ctx, r.stage); err != nil {
			return false, err
		}
	}
	title := fmt.Sprintf("Resizing disk '%s' to %d MiB", have.CID, want.Size)
	same := work.Method == "resize_disk"
	if !same {
		title = fmt.Sprintf("Updating disk '%s'", have.CID)
	}
	err = r.do(title, func(*report.Stage) error {
		props := properties(want)
		in := state.Intent{Method: work.Method, Disk: have.CID, Size: want.Size, CloudProperties: props}
		call := func(c *cpi.Client) (string, error) { return have.CID, c.ResizeDisk(ctx, have.CID, want.Size) }
		if !same {
			call = func(c *cpi.Client) (string, error) { return c.UpdateDisk(ctx, have.CID, want.Size, props) }
		}
		_, err := r.journal.Create(ctx, in, call)
		if cpi.NotImplemented(err) || cpi.NotSupported(err) {
			return report.Skip("not supported by the CPI")
		}
		changed = err == nil
		return err
	})
	if err != nil || !changed {
		return false, err
	}
	st := r.state.Get()
	return true, r.attachDisk(ctx, *st.Disk()) // the change may have given it another CID
}

// migrateDisk moves the content of the mounted disk to a new one, or to the one
// with the CID begun that an interrupted run has mounted for that.
func (r *run) migrateDisk(ctx context.Context, old state.Disk, begun string) error {
	var d state.Disk
	if st := r.state.Get(); begun != "" && plan.DiskOf(st, begun) != nil {
		d = *plan.DiskOf(st, begun)
	} else {
		var err error
		if d, err = r.createDisk(ctx, r.manifest.Group.Disk); err != nil {
			return err
		}
		if err := r.attachSecond(ctx, old, d); err != nil {
			return err
		}
	}
	err := r.do(fmt.Sprintf("Migrating disk content from '%s' to '%s'", old.CID, d.CID), func(*report.Stage) error {
		if err := r.agent.MigrateDisk(ctx); err != nil {
			return err
		}
		mounted, err := r.agent.ListDisk(ctx)
		if err != nil {
			return fmt.Errorf("cannot ask whether the new disk is mounted: %w", err)
		}
		if !slices.Contains(mounted, d.CID) {
			return fmt.Errorf("the agent has not mounted disk %s after the migration (mounted: %v): disk %s stays the current one", d.CID, mounted, old.CID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.makeCurrent(d); err != nil {
		return err
	}
	r.migratedFrom = old.CID
	vm := r.state.Get().CurrentVMCID
	return r.do(fmt.Sprintf("Detaching disk '%s'", old.CID), func(s *report.Stage) error {
		if err := report.Unskipped(script(r.agent.RemovePersistentDisk(ctx, old.CID))); err != nil {
			return err
		}
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, vm, old.CID); err != nil {
			return err
		}
		return r.awaitDetached(ctx, s)
	})
}

// awaitDetached waits until the agent answers after detach_disk, for which some
// CPIs restart the VM.
func (r *run) awaitDetached(ctx context.Context, s *report.Stage) error {
	return r.awaitAgent(ctx, s, r.agent, r.opts.AgentTimeout, "detach_disk, for which some CPIs restart the VM")
}

// freeDisk detaches an unused disk from a VM that stays: an interrupted run may
// have left it attached beside the current one.
func (r *run) freeDisk(ctx context.Context, cid string) error {
	if !r.mayHold(cid) {
		return nil
	}
	vm := r.state.Get().CurrentVMCID
	return r.root.Do(fmt.Sprintf("Detaching unused disk '%s'", cid), func(s *report.Stage) error {
		mounted, err := r.agent.ListDisk(ctx)
		if err != nil {
			return fmt.Errorf("cannot ask which disks are mounted: %w", err)
		}
		if slices.Contains(mounted, cid) {
			if err := r.agent.UnmountDisk(ctx, cid); err != nil {
				return err
			}
		}
		if err := report.Unskipped(script(r.agent.RemovePersistentDisk(ctx, cid))); err != nil {
			return err
		}
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, vm, cid); err != nil {
			// Each CPI has its own error for a disk that is not attached. If
			// the disk is attached, deleting it fails and reports that.
			return report.Skip("not attached: " + err.Error())
		}
		return r.awaitDetached(ctx, s)
	})
}

// mayHold reports whether the unused disk may be attached to the VM: false for
// a new VM, and for the disk that this run migrated from.
func (r *run) mayHold(cid string) bool { return !r.plan.NewVM() && cid != r.migratedFrom }

func (r *run) createDisk(ctx context.Context, want *manifest.DiskPool) (state.Disk, error) {
	var d state.Disk
	err := r.do("Creating disk", func(*report.Stage) error {
		props := properties(want)
		cid, err := r.journal.Create(ctx, state.Intent{Method: "create_disk", Size: want.Size, CloudProperties: props}, func(c *cpi.Client) (string, error) {
			return c.CreateDisk(ctx, want.Size, props, r.state.Get().CurrentVMCID)
		})
		for _, made := range r.state.Get().Disks {
			if err == nil && made.CID == cid {
				d = made
			}
		}
		return err
	})
	return d, err
}

func (r *run) makeCurrent(d state.Disk) error {
	return r.state.Update(func(st *state.State) error {
		st.CurrentDiskID = d.ID
		return nil
	})
}

// attachDisk attaches and mounts a disk; beside a mounted one the agent mounts
// it as the target of a migration.
func (r *run) attachDisk(ctx context.Context, d state.Disk) error {
	vm := r.state.Get().CurrentVMCID
	return r.do(fmt.Sprintf("Attaching disk '%s' to VM '%s'", d.CID, vm), func(s *report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		hint, err := c.AttachDisk(ctx, vm, d.CID)
		if err != nil {
			if hint, err = r.attachAgain(ctx, s, vm, d, err); err != nil {
				return err
			}
		}
		r.tagDisk(ctx, d.CID)
		// Some CPIs restart the VM to attach a disk.
		if err := r.awaitAgent(ctx, s, r.agent, r.opts.AgentTimeout, "attach_disk, for which some CPIs restart the VM"); err != nil {
			return err
		}
		if hint != nil {
			if err := report.Unskipped(script(r.agent.AddPersistentDisk(ctx, d.CID, hint))); err != nil {
				return err
			}
		}
		return r.agent.MountDisk(ctx, d.CID)
	})
}

// attachAgain detaches a disk that an interrupted run has attached, and
// attaches it again: some CPIs refuse to attach it twice, and only attach_disk
// returns the hint for the agent.
func (r *run) attachAgain(ctx context.Context, s *report.Stage, vm string, d state.Disk, refusal error) (hint any, err error) {
	var refused *cpi.Error
	if !errors.As(refusal, &refused) || r.plan.NewVM() {
		return nil, refusal
	}
	c, err := r.cpi(ctx)
	if err != nil {
		return nil, err
	}
	attached, err := c.GetDisks(ctx, vm)
	if err != nil || !slices.Contains(attached, d.CID) {
		return nil, refusal
	}
	if err := c.DetachDisk(ctx, vm, d.CID); err != nil {
		return nil, errors.Join(refusal, err)
	}
	if err := r.awaitDetached(ctx, s); err != nil {
		return nil, err
	}
	return c.AttachDisk(ctx, vm, d.CID)
}

// tagDisk sets the tags of the disk in the cloud; a failure is only a warning.
func (r *run) tagDisk(ctx context.Context, cid string) {
	c, err := r.cpi(ctx)
	if err == nil {
		err = c.SetDiskMetadata(ctx, cid, r.diskMetadata())
	}
	if err != nil && ctx.Err() == nil && !cpi.NotImplemented(err) { // after an interrupt, the next deploy tags it
		r.root.Warning(fmt.Sprintf("cannot tag disk %s: %v", cid, err))
	}
}

// diskMetadata returns the tags of a disk, as create-env sets them.
func (r *run) diskMetadata() map[string]string {
	tags := r.metadata()
	tags["instance_index"] = tags["index"]
	tags["attached_at"] = time.Now().Format(time.RFC3339)
	// create-env removes these names, even if they are tags of the manifest.
	for _, k := range []string{"job", "name", "index", "created_at"} {
		delete(tags, k)
	}
	return tags
}

// snapshotDisk takes a snapshot of the disk before the VM or the disk is
// changed.
func (r *run) snapshotDisk(ctx context.Context) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil {
		return nil
	}
	return r.do(fmt.Sprintf("Taking a snapshot of disk '%s'", d.CID), func(s *report.Stage) error {
		cid, err := r.journal.Create(ctx, state.Intent{Method: "snapshot_disk", Disk: d.CID}, func(c *cpi.Client) (string, error) {
			return c.SnapshotDisk(ctx, d.CID, r.diskMetadata())
		})
		if cpi.NotImplemented(err) || cpi.NotSupported(err) {
			return report.Skip("not supported by the CPI")
		}
		if err == nil {
			s.Info(fmt.Sprintf("  Took snapshot '%s' of disk '%s'; bootstrap never deletes snapshots", cid, d.CID))
		}
		return err
	})
}

// deleteDisks deletes every disk that the state owns, the current one first;
// with KeepDisk it keeps the current one as an orphan.
func (r *run) deleteDisks(ctx context.Context) error {
	st := r.state.Get()
	if d := st.Disk(); d != nil && r.opts.KeepDisk {
		err := r.state.Update(func(st *state.State) error {
			st.Orphan(*d, "kept by delete --keep-disk", time.Now())
			return nil
		})
		if err != nil {
			return err
		}
		r.root.Info(fmt.Sprintf("Disk '%s' is kept; `bootstrap disks attach MANIFEST %s` makes the next deploy use it", d.CID, d.CID))
	} else if d != nil {
		if err := r.deleteDisk(ctx, r.stage, "Deleting disk '%s'", *d); err != nil {
			return err
		}
	}
	for _, d := range r.state.Get().Disks {
		if err := r.deleteDisk(ctx, r.stage, "Deleting unused disk '%s'", d); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) deleteDisk(ctx context.Context, in *report.Stage, title string, d state.Disk) error {
	return in.Do(fmt.Sprintf(title, d.CID), func(*report.Stage) error {
		in := state.Intent{Method: "delete_disk", CID: d.CID}
		call := func(c *cpi.Client) error { return c.DeleteDisk(ctx, d.CID) }
		return r.journal.Delete(ctx, in, call)
	})
}

// properties returns the disk's cloud_properties for the CPI: an empty map, not
// null, if there are none.
func properties(want *manifest.DiskPool) map[string]any {
	if want.CloudProperties == nil {
		return map[string]any{}
	}
	return want.CloudProperties
}
