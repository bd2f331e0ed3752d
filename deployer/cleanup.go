package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/report"
)

// cleanUp deletes unused things, and looks again at leftovers of earlier runs
// if the CPI is connected anyway.
func (r *run) cleanUp(ctx context.Context) error {
	if err := r.deleteUnused(ctx); err != nil {
		return err
	}
	return r.journal.LookAtLeftovers(ctx)
}

// deleteUnused deletes the disks and stemcells that the state owns and that are
// not current. The deploy has succeeded, so a failure is only a warning, and
// the next run tries again.
func (r *run) deleteUnused(ctx context.Context) error {
	st := r.t.State.Get()
	for _, d := range st.Disks {
		switch {
		case d.ID == st.CurrentDiskID:
		default:
			err := r.disks.free(ctx, d.CID)
			switch {
			case err != nil:
			case r.plan.KeepOldDisk:
				err = r.disks.keepUnused(d)
			default:
				err = r.disks.delete(ctx, r.t.Out.Root, "Deleting unused disk '%s'", d)
			}
			r.warn(err)
		}
	}
	for _, sc := range st.Stemcells {
		if sc.ID != st.CurrentStemcellID && (st.Own.Swap == nil || sc.ID != st.Own.Swap.StemcellID) {
			r.warn(r.stemcells.delete(ctx, r.t.Out.Root, "Deleting unused stemcell '%s'", sc))
		}
	}
	return nil
}

// updateTags sets the tags of an existing VM and its disk again.
func (r *run) updateTags(ctx context.Context) error {
	st := r.t.State.Get()
	return r.t.Out.Do(fmt.Sprintf("Updating the tags of VM '%s'", st.CurrentVMCID), func(*report.Stage) error {
		r.vms.tag(ctx, st.CurrentVMCID)
		if d := st.Disk(); d != nil {
			r.disks.tag(ctx, d.CID)
		}
		return nil
	})
}
