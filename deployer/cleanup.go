package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// cleanUp deletes unused disks and stemcells. If the CPI is connected, it also tries
// again to settle leftovers of earlier runs.
func (r *run) cleanUp(ctx context.Context, s plan.Step) error {
	if err := r.deleteUnused(ctx, s); err != nil {
		return err
	}
	return r.journal.LookAtLeftovers(ctx)
}

// deleteUnused deletes the disks and stemcells that the state owns and that are
// not current. The deploy has succeeded, so a failure is only a warning, and
// the next run tries again.
func (r *run) deleteUnused(ctx context.Context, s plan.Step) error {
	st := r.t.State.Get()
	for _, d := range st.Disks {
		switch {
		case st.Uses(d):
		default:
			err := r.disks.free(ctx, s, d.CID)
			switch {
			case err != nil:
			case s.With.KeepUnused:
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

// recordTags records that the new VM and its disk have their tags, so that the deploy that
// applies the jobs needs no CPI.
func (r *run) recordTags(context.Context) error {
	if r.vms.untagged || r.disks.untagged {
		return nil
	}
	return r.t.State.Update(func(st *state.State) error {
		st.Own.Tagged = r.vms.want.Applied[plan.PartTags]
		return nil
	})
}

// updateTags sets the tags of an existing VM and its disk again.
func (r *run) updateTags(ctx context.Context, s plan.Step) error {
	return r.t.Out.Do(fmt.Sprintf("Updating the tags of VM '%s'", r.vm), func(*report.Stage) error {
		r.vms.tag(ctx, r.vm)
		for _, cid := range s.With.Disks {
			r.disks.tag(ctx, cid)
		}
		return nil
	})
}
