package deployer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/state"
)

// associations returns the names of the disks that are attached to the current VM, as its
// agent is to have them. update_settings replaces all of them.
func associations(st state.State) []agent.DiskAssociation {
	var list []agent.DiskAssociation
	for _, n := range st.Own.NamedDisks {
		if d := st.Named(n.Name); d != nil && st.Attached(n.Name) {
			list = append(list, agent.DiskAssociation{Name: n.Name, CID: d.CID})
		}
	}
	return list
}

// createNamed creates a disk with a name and attaches it, while the jobs are stopped.
func (ds *disks) createNamed(ctx context.Context, s plan.Step) error {
	i := slices.IndexFunc(ds.in.Manifest.Group.Disks, func(d manifest.NamedDisk) bool { return d.Name == s.Disk.As })
	if i < 0 {
		return fmt.Errorf("the manifest has no disk %s of the plan", s.Disk.As)
	}
	d, err := ds.create(ctx, &ds.in.Manifest.Group.Disks[i].Pool)
	if err != nil {
		return err
	}
	if err := ds.setNamed(s.Disk.As, d.ID, ""); err != nil {
		return err
	}
	return ds.attachAs(ctx, s, d)
}

// attachNamed attaches a recorded disk to the VM under its name.
func (ds *disks) attachNamed(ctx context.Context, s plan.Step) error {
	d, err := ds.recorded(s.Disk.CID)
	if err != nil {
		return err
	}
	return ds.attachAs(ctx, s, d)
}

// attachAs attaches a disk, and has the agent give it its name on the VM. The agent gets
// each name before the next disk: it does not start with more disks than names, and some
// CPIs restart the VM to attach a disk.
func (ds *disks) attachAs(ctx context.Context, s plan.Step, d state.Disk) error {
	return ds.attachThen(ctx, s, d, func() error {
		names := append(associations(ds.rec.State.Get()), agent.DiskAssociation{Name: s.Disk.As, CID: d.CID})
		if err := ds.agent.Associate(ctx, names); err != nil {
			return err
		}
		return ds.setNamed(s.Disk.As, d.ID, ds.vm)
	})
}

func (ds *disks) setNamed(name, id, vm string) error {
	return ds.rec.State.Update(func(st *state.State) error {
		st.SetNamed(name, id, vm)
		return nil
	})
}

// orphanNamed makes a disk with a name an orphan. From a VM that stays it is detached
// first; from then on it counts as not attached.
func (ds *disks) orphanNamed(ctx context.Context, s plan.Step) error {
	d, err := ds.recorded(s.Disk.CID)
	if err != nil {
		return err
	}
	if err := ds.setNamed(s.Disk.As, d.ID, ""); err != nil {
		return err
	}
	if !s.With.New {
		if err := ds.unname(ctx, s, d); err != nil {
			return err
		}
	}
	why := "the manifest asked for no disk named " + s.Disk.As + " any more"
	if s.With.Replaced {
		why = "the manifest asked for another disk named " + s.Disk.As
	}
	return ds.rec.State.Update(func(st *state.State) error {
		st.Orphan(d, why, time.Now())
		return nil
	})
}

// unname detaches a disk with a name from the VM, and has the agent forget both.
func (ds *disks) unname(ctx context.Context, s plan.Step, d state.Disk) error {
	return ds.rec.Out.Do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(stage *report.Stage) error {
		if err := ds.agent.Associate(ctx, associations(ds.rec.State.Get())); err != nil {
			return err
		}
		if err := report.Unskipped(script(ds.agent.RemovePersistentDisk(ctx, d.CID))); err != nil {
			return err
		}
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, ds.vm, d.CID); err != nil {
			if s.With.Attached {
				return err
			}
			stage.Info(fmt.Sprintf("Assuming that disk '%s' is not attached: %v", d.CID, err))
		}
		return ds.awaitDetached(ctx, stage)
	})
}
