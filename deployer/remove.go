package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
	"bootstrap/tunnel"
)

// deleteCurrent deletes the recorded VM, and removes its record when the CPI has
// confirmed that.
func (v *vms) deleteCurrent(ctx context.Context, s plan.Step) error {
	v.deletedAgent = s.With.AgentID
	return v.delete(ctx, s.Name)
}

// deleteOld deletes the VM that the current one has replaced.
func (v *vms) deleteOld(ctx context.Context, s plan.Step) error {
	if err := v.delete(ctx, s.Name); err != nil {
		return err
	}
	return v.ledgers.ReleaseVM(ctx, s.Name)
}

func (v *vms) delete(ctx context.Context, cid string) error {
	return v.rec.Out.Do(fmt.Sprintf("Deleting VM '%s'", cid), func(*report.Stage) error {
		// If this fails, the files do no harm, because no other VM has this CID.
		_ = tunnel.Forget(ctx, filepath.Join(v.rec.Dir, "known_hosts"), cid)
		in := state.Intent{Method: "delete_vm", CID: cid}
		call := func(c *cpi.Client) error { return c.DeleteVM(ctx, cid) }
		return v.journal.Delete(ctx, in, call)
	})
}

// free detaches an unused disk from a VM that stays, unless this run has migrated from
// it. An interrupted run may have left the disk attached.
func (ds *disks) free(ctx context.Context, step plan.Step, cid string) error {
	if step.With.New || cid == ds.migratedFrom {
		return nil
	}
	return ds.rec.Out.Root.Do(fmt.Sprintf("Detaching unused disk '%s'", cid), func(s *report.Stage) error {
		mounted, err := ds.agent.ListDisk(ctx)
		if err != nil {
			return fmt.Errorf("cannot ask which disks are mounted: %w", err)
		}
		if slices.Contains(mounted, cid) {
			if err := ds.agent.UnmountDisk(ctx, cid); err != nil {
				return err
			}
		}
		if err := report.Unskipped(script(ds.agent.RemovePersistentDisk(ctx, cid))); err != nil {
			return err
		}
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, ds.vm, cid); err != nil {
			// If the disk is not attached, the error differs between CPIs. If it is, the
			// deletion fails and reports that.
			return report.Skip("not attached: " + err.Error())
		}
		return ds.awaitDetached(ctx, s)
	})
}

// keepInUse makes a disk in use an orphan, which delete does not delete.
func (ds *disks) keepInUse(_ context.Context, s plan.Step) error {
	d, err := ds.recorded(s.Name)
	if err != nil {
		return err
	}
	err = ds.rec.State.Update(func(st *state.State) error {
		st.Orphan(d, ds.whyKept(), time.Now())
		return nil
	})
	if err == nil {
		of := ""
		if several := ds.rec.From.Of; several != nil {
			of = " --instance " + several.Instance.Name()
		}
		ds.rec.Out.Info(fmt.Sprintf("Disk '%s' is kept; `bootstrap disks attach MANIFEST%s %s` makes the next deploy use it", d.CID, of, d.CID))
	}
	return err
}

// deleteAll deletes every disk that the state owns, the current one first.
func (ds *disks) deleteAll(ctx context.Context, s plan.Step) error {
	if d := plan.DiskOf(ds.rec.State.Get(), s.Name); d != nil {
		if err := ds.delete(ctx, ds.rec.Out.Open, "Deleting disk '%s'", *d); err != nil {
			return err
		}
	}
	st := ds.rec.State.Get()
	for _, d := range st.Disks {
		title := "Deleting unused disk '%s'"
		if st.Uses(d) {
			title = "Deleting disk '%s'"
		}
		if err := ds.delete(ctx, ds.rec.Out.Open, title, d); err != nil {
			return err
		}
	}
	return nil
}

func (ds *disks) delete(ctx context.Context, in *report.Stage, title string, d state.Disk) error {
	return in.Do(fmt.Sprintf(title, d.CID), func(*report.Stage) error {
		in := state.Intent{Method: "delete_disk", CID: d.CID}
		call := func(c *cpi.Client) error { return c.DeleteDisk(ctx, d.CID) }
		return ds.journal.Delete(ctx, in, call)
	})
}

// deleteOrphan deletes the orphan. It succeeds if an interrupted run has already deleted
// it.
func (ds *disks) deleteOrphan(ctx context.Context, s plan.Step) error {
	by, used, err := ds.usedBySibling(s.Name)
	switch {
	case err != nil:
		return err
	case used: // A killed run has attached it, and not removed this record.
		ds.rec.Out.Info(fmt.Sprintf("Disk '%s' is kept: %s uses it", s.Name, by))
		return ds.rec.State.Update(func(st *state.State) error { st.Forget("delete_disk", s.Name); return nil })
	}
	if o, err := orphanOf(ds.rec.State.Get(), s.Name); err == nil {
		if err := ds.delete(ctx, ds.rec.Out.Open, "Deleting orphaned disk '%s'", state.Disk{CID: o.CID}); err != nil {
			return err
		}
	}
	return nil
}

// keepUnused keeps a disk as an orphan, if this or an interrupted run has migrated its
// data to another one.
func (ds *disks) keepUnused(d state.Disk) error {
	return ds.rec.State.Update(func(st *state.State) error {
		st.Orphan(d, ds.whyUnused(*st), time.Now())
		return nil
	})
}

// detachFrom detaches the disk from the VM of the step.
func (ds *disks) detachFrom(ctx context.Context, s plan.Step) error {
	return ds.detach(ctx, s.Name, s.With.Disk)
}

// detach detaches the disk from a VM.
func (ds *disks) detach(ctx context.Context, vm, disk string) error {
	return ds.rec.Out.Do(fmt.Sprintf("Detaching disk '%s'", disk), func(*report.Stage) error {
		c, err := ds.cpi.Client(ctx)
		if err != nil {
			return err
		}
		err = c.DetachDisk(ctx, vm, disk)
		if cpi.NotFound(err) || cpi.NotImplemented(err) {
			return report.Skip("not attached")
		}
		return err
	})
}

func (ss *stemcells) delete(ctx context.Context, in *report.Stage, title string, sc state.Stemcell) error {
	return in.Do(fmt.Sprintf(title, sc.CID), func(*report.Stage) error {
		release, err := ss.rec.LockSiblings(ctx)
		if err != nil {
			return err
		}
		defer release()
		if by, used := ss.rec.SiblingUses(sc.CID); used {
			if err := ss.rec.State.Update(func(st *state.State) error { st.Forget("delete_stemcell", sc.CID); return nil }); err != nil {
				return err
			}
			return report.Skip(fmt.Sprintf("the instance %s uses it", by))
		}
		in := state.Intent{Method: "delete_stemcell", CID: sc.CID}
		call := func(c *cpi.Client) error { return c.DeleteStemcell(ctx, sc.CID) }
		return ss.journal.Delete(ctx, in, call)
	})
}

// deleteAll deletes every stemcell the state owns, the current one
// first.
func (ss *stemcells) deleteAll(ctx context.Context) error {
	st := ss.rec.State.Get()
	if sc := st.Stemcell(); sc != nil {
		if err := ss.delete(ctx, ss.rec.Out.Open, "Deleting stemcell '%s'", *sc); err != nil {
			return err
		}
	}
	for _, sc := range ss.rec.State.Get().Stemcells {
		if err := ss.delete(ctx, ss.rec.Out.Open, "Deleting unused stemcell '%s'", sc); err != nil {
			return err
		}
	}
	return nil
}

// uninstall removes the installed CPI and the state file. It keeps both if there are
// orphans or snapshots, which need them, or leftovers, which only the state file records.
func (rs *records) uninstall(ctx context.Context) error {
	// If the state file is kept, its record of bootstrap stop is removed.
	if err := rs.started(ctx); err != nil {
		return err
	}
	if n := len(rs.rec.State.Get().Own.Orphans); n > 0 {
		rs.rec.Out.Info(fmt.Sprintf("%s kept: the state file and the installed CPI stay, for `bootstrap disks MANIFEST`", plan.Count(n, "disk")))
		return nil
	}
	if n := len(rs.rec.State.Get().Own.Snapshots); n > 0 {
		rs.rec.Out.Info(fmt.Sprintf("%s kept: the state file and the installed CPI stay, for `bootstrap disks snapshots MANIFEST`", plan.Count(n, "snapshot")))
		return nil
	}
	if n := len(rs.rec.State.Get().Own.Leftovers); n > 0 {
		rs.rec.Out.Warning(fmt.Sprintf("%s of earlier runs may have left something in the cloud: the state file stays, for `bootstrap state leftovers MANIFEST`", plan.Count(n, "CPI call")))
		return nil
	}
	return rs.rec.Out.Do("Uninstalling local artifacts for CPI and deployment", func(*report.Stage) error {
		rs.cpi.CloseLog()
		if err := os.RemoveAll(rs.rec.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the installed CPI: %w", err)
		}
		return rs.rec.State.Remove()
	})
}

// uninstallRest removes the CPI and the state file if the state owns nothing any more.
func (rs *records) uninstallRest(ctx context.Context) error {
	if st := rs.rec.State.Get(); len(st.Owned()) > 0 {
		return nil
	}
	return rs.uninstall(ctx)
}
