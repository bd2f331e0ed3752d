package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/state"
)

// disks creates, attaches, changes and deletes persistent disks.
type disks struct {
	*work
	cpi          *instance.CPI
	migratedFrom string // CID of the disk that this run has migrated the data from
	untagged     bool   // the tags of a disk could not be set
}

// provideFirst creates the first disk and attaches it, while the jobs are
// stopped.
func (ds *disks) provideFirst(ctx context.Context, step plan.Step) error {
	d, err := ds.create(ctx, ds.in.Manifest.Group.Disk)
	if err != nil {
		return err
	}
	if err := ds.attach(ctx, step, d); err != nil {
		return err
	}
	return ds.makeCurrent(d)
}

// attachCurrent attaches the recorded disk to the VM.
func (ds *disks) attachCurrent(ctx context.Context, step plan.Step) error {
	d, err := ds.recorded(step.Disk.CID)
	if err != nil {
		return err
	}
	return ds.attach(ctx, step, d)
}

// recorded returns the record of the disk with the CID.
func (ds *disks) recorded(cid string) (state.Disk, error) {
	if d := plan.DiskOf(ds.rec.State.Get(), cid); d != nil {
		return *d, nil
	}
	return state.Disk{}, fmt.Errorf("the state does not record disk %s of the plan", cid)
}

// changeOrMigrate asks the CPI to change the disk, or migrates its data to a new one,
// according to the step. The old disk is deleted only after the deploy has succeeded.
func (ds *disks) changeOrMigrate(ctx context.Context, s plan.Step) error {
	have, err := ds.recorded(s.Disk.CID)
	if err != nil {
		return err
	}
	changed, err := ds.change(ctx, s, have)
	if err != nil || changed {
		return err
	}
	if err := ds.attach(ctx, s, have); err != nil {
		return err
	}
	return ds.migrate(ctx, s, have, "")
}

// migrateCurrent migrates the data of the disk to a new one.
func (ds *disks) migrateCurrent(ctx context.Context, s plan.Step) error {
	have, err := ds.recorded(s.Disk.CID)
	if err != nil {
		return err
	}
	if !s.Disk.Mounted {
		if err := ds.attach(ctx, s, have); err != nil {
			return err
		}
	}
	return ds.migrate(ctx, s, have, s.Disk.Begun)
}

// keepUnwanted records the disk as an orphan: the new VM gets no disk.
func (ds *disks) keepUnwanted(_ context.Context, s plan.Step) error {
	d, err := ds.recorded(s.Disk.CID)
	if err != nil {
		return err
	}
	return ds.rec.State.Update(func(st *state.State) error {
		st.Orphan(d, "the manifest asked for no persistent disk any more", time.Now())
		return nil
	})
}

// change detaches the disk and asks the CPI to change it. changed is false
// if the CPI cannot do that.
func (ds *disks) change(ctx context.Context, step plan.Step, have state.Disk) (changed bool, err error) {
	want, work, mounted := ds.in.Manifest.Group.Disk, *step.Disk, step.Disk.Mounted
	if mounted {
		if err := ds.rec.Out.Do(fmt.Sprintf("Unmounting disk '%s'", have.CID), func(*report.Stage) error { return ds.agent.UnmountDisk(ctx, have.CID) }); err != nil {
			return false, err
		}
	}
	if !step.With.New {
		// The agent keeps the disk in its settings, because an agent without its only
		// disk fails at its next start. An interrupted run may have attached the disk
		// without mounting it. If it is not attached, the error differs between CPIs.
		if err := ds.detach(ctx, ds.vm, have.CID); err != nil {
			if mounted {
				return false, err
			}
			ds.rec.Out.Info(fmt.Sprintf("Assuming that disk '%s' is not attached: %v", have.CID, err))
		}
		if err := ds.awaitDetached(ctx, ds.rec.Out.Open); err != nil {
			return false, err
		}
	}
	title := fmt.Sprintf("Resizing disk '%s' to %d MiB", have.CID, want.Size)
	same := work.Method == "resize_disk"
	if !same {
		title = fmt.Sprintf("Updating disk '%s'", have.CID)
	}
	err = ds.rec.Out.Do(title, func(*report.Stage) error {
		props := properties(want)
		in := state.Intent{Method: work.Method, Disk: have.CID, Size: want.Size, CloudProperties: props}
		call := func(c *cpi.Client) (string, error) { return have.CID, c.ResizeDisk(ctx, have.CID, want.Size) }
		if !same {
			call = func(c *cpi.Client) (string, error) { return c.UpdateDisk(ctx, have.CID, want.Size, props) }
		}
		cid, err := ds.journal.Create(ctx, in, call)
		switch { // After other errors, the disk may be partly changed.
		case cpi.NotImplemented(err), cpi.NotSupported(err):
			return report.Skip("not supported by the CPI")
		case cpi.NotPermitted(err):
			return report.Skip("not permitted to the CPI")
		}
		if changed = err == nil; changed {
			have, err = ds.recorded(cid) // The change may have given the disk another CID.
		}
		return err
	})
	if err != nil || !changed {
		return false, err
	}
	return true, ds.attach(ctx, step, have)
}

// migrate migrates the data of the mounted disk to a new one, or to the disk begun, which
// an interrupted run has mounted as the target.
func (ds *disks) migrate(ctx context.Context, step plan.Step, old state.Disk, begun string) error {
	var d state.Disk
	if st := ds.rec.State.Get(); begun != "" && plan.DiskOf(st, begun) != nil {
		d = *plan.DiskOf(st, begun)
	} else {
		var err error
		if d, err = ds.create(ctx, ds.in.Manifest.Group.Disk); err != nil {
			return err
		}
		if err := ds.attachSecond(ctx, step, old, d); err != nil {
			return err
		}
	}
	err := ds.rec.Out.Do(fmt.Sprintf("Migrating disk content from '%s' to '%s'", old.CID, d.CID), func(*report.Stage) error {
		if err := ds.agent.MigrateDisk(ctx); err != nil {
			return err
		}
		mounted, err := ds.agent.ListDisk(ctx)
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
	if err := ds.makeCurrent(d); err != nil {
		return err
	}
	ds.migratedFrom = old.CID
	return ds.rec.Out.Do(fmt.Sprintf("Detaching disk '%s'", old.CID), func(s *report.Stage) error {
		if err := report.Unskipped(script(ds.agent.RemovePersistentDisk(ctx, old.CID))); err != nil {
			return err
		}
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, ds.vm, old.CID); err != nil {
			return err
		}
		return ds.awaitDetached(ctx, s)
	})
}

// restartTime returns how long the agent may take to answer after a call for which some
// CPIs restart the VM. An agent that starts with unexpected disks never answers.
func (ds *disks) restartTime() time.Duration {
	return min(instance.RebootTimeout, ds.rec.Env.AgentTimeout)
}

// awaitDetached waits until the agent answers after detach_disk, for which some
// CPIs restart the VM.
func (ds *disks) awaitDetached(ctx context.Context, s *report.Stage) error {
	return ds.awaitAgent(ctx, s, ds.agent, ds.restartTime(), "detach_disk, for which some CPIs restart the VM")
}

func (ds *disks) create(ctx context.Context, want *manifest.DiskPool) (state.Disk, error) {
	var d state.Disk
	err := ds.rec.Out.Do("Creating disk", func(*report.Stage) error {
		props := properties(want)
		cid, err := ds.journal.Create(ctx, state.Intent{Method: "create_disk", Size: want.Size, CloudProperties: props}, func(c *cpi.Client) (string, error) {
			return c.CreateDisk(ctx, want.Size, props, ds.vm)
		})
		for _, made := range ds.rec.State.Get().Disks {
			if err == nil && made.CID == cid {
				d = made
			}
		}
		return err
	})
	return d, err
}

func (ds *disks) makeCurrent(d state.Disk) error {
	return ds.rec.State.Update(func(st *state.State) error {
		st.CurrentDiskID = d.ID
		return nil
	})
}

// attach attaches and mounts a disk. If another disk is mounted, the agent mounts it as
// the target of a migration.
func (ds *disks) attach(ctx context.Context, step plan.Step, d state.Disk) error {
	return ds.attachThen(ctx, step, d, func() error { return ds.agent.MountDisk(ctx, d.CID) })
}

// attachThen attaches a disk and, when the agent knows it, calls then in the same stage.
func (ds *disks) attachThen(ctx context.Context, step plan.Step, d state.Disk, then func() error) error {
	return ds.rec.Out.Do(fmt.Sprintf("Attaching disk '%s' to VM '%s'", d.CID, ds.vm), func(s *report.Stage) error {
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		hint, err := c.AttachDisk(ctx, ds.vm, d.CID)
		if err != nil {
			if hint, err = ds.attachAgain(ctx, s, step, d, err); err != nil {
				return err
			}
		}
		ds.tag(ctx, d.CID)
		// Some CPIs restart the VM to attach a disk.
		if err := ds.awaitAgent(ctx, s, ds.agent, ds.restartTime(), "attach_disk, for which some CPIs restart the VM"); err != nil {
			return err
		}
		if hint != nil {
			if err := report.Unskipped(script(ds.agent.AddPersistentDisk(ctx, d.CID, hint))); err != nil {
				return err
			}
		}
		return then()
	})
}

// attachAgain detaches a disk that an interrupted run has attached, and
// attaches it again: some CPIs refuse to attach it twice, and only attach_disk
// returns the hint for the agent.
func (ds *disks) attachAgain(ctx context.Context, s *report.Stage, step plan.Step, d state.Disk, refusal error) (hint any, err error) {
	var refused *cpi.Error
	if !errors.As(refusal, &refused) || step.With.New {
		return nil, refusal
	}
	c, err := ds.cpi.Client(ctx)
	if err != nil {
		return nil, err
	}
	attached, err := c.GetDisks(ctx, ds.vm)
	if err != nil || !slices.Contains(attached, d.CID) {
		return nil, refusal
	}
	if err := c.DetachDisk(ctx, ds.vm, d.CID); err != nil {
		return nil, errors.Join(refusal, err)
	}
	if err := ds.awaitDetached(ctx, s); err != nil {
		return nil, err
	}
	return c.AttachDisk(ctx, ds.vm, d.CID)
}

// tag sets the tags of the disk in the cloud; a failure is only a warning.
func (ds *disks) tag(ctx context.Context, cid string) {
	c, err := ds.cpi.Client(ctx)
	if err == nil {
		err = c.SetDiskMetadata(ctx, cid, ds.metadata())
	}
	ds.untagged = err != nil && !cpi.NotImplemented(err)
	if ds.untagged && ctx.Err() == nil { // After an interruption, the next deploy sets the tags.
		ds.rec.Out.Warning(fmt.Sprintf("cannot tag disk %s: %v", cid, err))
	}
}

// metadata returns the tags of a disk, as create-env sets them.
func (ds *disks) metadata() map[string]string {
	tags := ds.tags()
	tags["instance_index"] = tags["index"]
	tags["attached_at"] = time.Now().Format(time.RFC3339)
	// create-env removes these keys, even if they are tags of the manifest.
	for _, k := range []string{"job", "name", "index", "created_at"} {
		delete(tags, k)
	}
	return tags
}

// snapshot takes a snapshot of the disk before the VM or the disk is
// changed.
func (ds *disks) snapshot(ctx context.Context, step plan.Step) error {
	disk := step.Name
	return ds.rec.Out.Do(fmt.Sprintf("Taking a snapshot of disk '%s'", disk), func(s *report.Stage) error {
		cid, err := ds.journal.Create(ctx, snapshotOf(ds.rec.State.Get(), disk), func(c *cpi.Client) (string, error) {
			return c.SnapshotDisk(ctx, disk, ds.metadata())
		})
		if cpi.NotImplemented(err) || cpi.NotSupported(err) {
			return report.Skip("not supported by the CPI")
		}
		if err == nil {
			s.Info(fmt.Sprintf("  Took snapshot '%s' of disk '%s'; `bootstrap disks snapshots` lists it", cid, disk))
		}
		return err
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
