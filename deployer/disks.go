package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// Disks lists the persistent disks that a state records, the current one
// first, then the unused ones.
func Disks(st state.State) []SeenDisk {
	c := &Condition{}
	c.addRecords(st)
	slices.SortStableFunc(c.Disks, func(a, b SeenDisk) int { return rank(a.Use) - rank(b.Use) })
	return c.Disks
}

func rank(u DiskUse) int { return slices.Index([]DiskUse{DiskCurrent, DiskUnused, DiskOrphan}, u) }

// AttachDisk makes the orphan with the CID opts.Disk the current disk, which
// the next deploy attaches. It needs the state file alone.
func AttachDisk(ctx context.Context, opts Options) error {
	return execute(ctx, opts, append(onState(), phase{name: "attach disk", do: (*run).adoptOrphan}))
}

// DeleteDisk deletes the orphan with the CID opts.Disk and its data. It uses
// the CPI that is installed on this machine, or installs it from the manifest.
func DeleteDisk(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, append(locally(), []phase{
		{name: "expect orphan", do: (*run).expectOrphan},
		{name: "confirm", do: (*run).confirmOrphan},
		{name: "prepare cpi", do: (*run).prepareCPI},
		{name: "settle intents", do: (*run).settle},
		{name: "delete disk", do: func(r *run, ctx context.Context) error {
			return r.runSteps(ctx, "deleting disk", plan.DeleteDiskSteps(opts.Disk))
		}},
	}...))
}

// ForgetDisk removes from the state the disk with the CID opts.Disk, or the
// current one if that is empty. The CPI must say that the disk does not exist;
// with opts.Force it is not asked.
func ForgetDisk(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	phases := append(onState(), phase{name: "find disk", do: (*run).findRecord})
	if opts.Force {
		phases = append(phases, phase{name: "confirm", do: (*run).confirmForget})
	} else {
		phases = append(phases, []phase{
			{name: "find installation", group: validating, do: (*run).findInstallation},
			{name: "prepare cpi", do: (*run).prepareCPI},
			{name: "settle intents", do: (*run).settle},
			{name: "look", do: (*run).refuseExisting},
		}...)
	}
	return execute(ctx, opts, append(phases, phase{name: "forget disk", do: (*run).forgetDisk}))
}

// orphanOf returns the orphan with that CID.
func orphanOf(st state.State, cid string) (state.Orphan, error) {
	i := slices.IndexFunc(st.Own.Orphans, func(o state.Orphan) bool { return o.CID == cid })
	if i >= 0 {
		return st.Own.Orphans[i], nil
	}
	switch d := plan.DiskOf(st, cid); {
	case d == nil:
		return state.Orphan{}, fmt.Errorf("there is no disk %s in the state file: `bootstrap disks MANIFEST` lists the existing ones", cid)
	case d.ID == st.CurrentDiskID:
		return state.Orphan{}, fmt.Errorf("disk %s is the current one, not an orphan", cid)
	}
	return state.Orphan{}, fmt.Errorf("disk %s is unused, not an orphan: the next deploy deletes it", cid)
}

func (r *run) adoptOrphan(context.Context) error {
	cid, st := r.opts.Disk, r.state.Get()
	if _, err := orphanOf(st, cid); err != nil {
		return err
	}
	if d := st.Disk(); d != nil {
		return fmt.Errorf("disk %s cannot be attached: disk %s is the current one, and a deployment has one; to change them, take persistent_disk_pool out of the manifest and deploy, which keeps that one as an orphan, then put it back and attach", cid, d.CID)
	}
	err := r.state.Update(func(st *state.State) error {
		d, _ := st.Adopt(cid)
		st.CurrentDiskID = d.ID
		return nil
	})
	if err != nil {
		return err
	}
	r.root.Info(fmt.Sprintf("Disk '%s' is the current one now: the next deploy attaches it, if the manifest asks for a persistent disk", cid))
	return nil
}

// expectOrphan refuses to delete a disk that is not an orphan.
func (r *run) expectOrphan(context.Context) error {
	_, err := orphanOf(r.state.Get(), r.opts.Disk)
	return err
}

// confirmOrphan asks before an orphan is deleted.
func (r *run) confirmOrphan(ctx context.Context) error {
	o, err := orphanOf(r.state.Get(), r.opts.Disk)
	if err != nil {
		return err
	}
	return r.question(ctx, Question{What: []string{fmt.Sprintf("disk %s (%d MiB) is deleted with its data", o.CID, o.Size)}, Data: true})
}

// deleteOrphan deletes the orphan, unless an interrupted run has already
// deleted it.
func (r *run) deleteOrphan(ctx context.Context) error {
	if o, err := orphanOf(r.state.Get(), r.opts.Disk); err == nil {
		if err := r.deleteDisk(ctx, r.stage, "Deleting orphaned disk '%s'", state.Disk{CID: o.CID}); err != nil {
			return err
		}
	}
	return nil
}

// uninstallRest removes the installation if the state owns nothing any more.
func (r *run) uninstallRest(ctx context.Context) error {
	st := r.state.Get()
	st.Own.Snapshots = nil // no command deletes snapshots
	if len(st.Owned()) > 0 {
		return nil
	}
	return r.uninstall(ctx)
}

// findRecord finds the disk to forget.
func (r *run) findRecord(context.Context) error {
	st := r.state.Get()
	if r.opts.Disk == "" {
		if r.opts.Disk = plan.CurrentDisk(st); r.opts.Disk == "" {
			return errors.New("there is no current disk: `bootstrap disks MANIFEST` lists the existing ones")
		}
		return nil
	}
	_, err := orphanOf(st, r.opts.Disk)
	if err != nil && plan.DiskOf(st, r.opts.Disk) == nil {
		return err
	}
	return nil
}

// confirmForget asks before a disk is forgotten without asking the CPI.
func (r *run) confirmForget(ctx context.Context) error {
	return r.question(ctx, Question{What: []string{fmt.Sprintf("the state file forgets disk %s; if the disk exists, it stays in the cloud, unknown to bootstrap", r.opts.Disk)}})
}

// refuseExisting refuses to forget a disk that exists or may exist: only the
// state knows its CID.
func (r *run) refuseExisting(ctx context.Context) error {
	cid := r.opts.Disk
	return r.do(fmt.Sprintf("Looking for disk '%s'", cid), func(*report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		there, err := c.HasDisk(ctx, cid)
		switch {
		case cpi.NotImplemented(err):
			return fmt.Errorf("the CPI cannot tell whether disk %s exists: look in the cloud, and if it is gone, --force forgets it", cid)
		case err == nil && there:
			return fmt.Errorf("disk %s exists, so the state file keeps it; --force forgets it anyway", cid)
		}
		return err
	})
}

func (r *run) forgetDisk(context.Context) error {
	cid := r.opts.Disk
	if err := r.state.Update(func(st *state.State) error { st.Forget("delete_disk", cid); return nil }); err != nil {
		return err
	}
	r.root.Info(fmt.Sprintf("Disk '%s' is forgotten", cid))
	return nil
}
