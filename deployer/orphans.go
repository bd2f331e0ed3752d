package deployer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// orphansOf returns the CIDs of the orphans since before a time; zero: of all.
func orphansOf(st state.State, before time.Time) []string {
	var list []string
	for _, o := range st.Own.Orphans {
		if before.IsZero() || o.Since.Before(before) {
			list = append(list, o.CID)
		}
	}
	return list
}

// deletesOrphan returns the line of a question about an orphan that is deleted.
func deletesOrphan(o state.Orphan) string {
	return fmt.Sprintf("disk %s (%d MiB) is deleted with its data", o.CID, o.Size)
}

// findOrphans finds the orphans that the run deletes. It ends the run if there is none that
// is old enough.
func (r *diskRecord) findOrphans(context.Context) error {
	st := r.t.State.Get()
	if r.cid != "" {
		r.orphans = []string{r.cid}
		_, err := orphanOf(st, r.cid)
		return err
	}
	if r.orphans = orphansOf(st, r.asked.OrphansBefore); len(r.orphans) == 0 {
		if r.t.From.Of == nil {
			r.t.Out.Info("No orphaned disk is that old: nothing to delete")
		}
		return errDone
	}
	return nil
}

// DropOrphans removes the orphans opts.Attached from the state: other instances of the
// deployment use these disks. With the last one of a deleted instance, it removes the state
// file and the installed CPI.
func DropOrphans(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	return r.execute(ctx, r.dropPhases())
}

// dropOrphans removes orphans that other instances use.
func (r *run) dropOrphans(ctx context.Context) error {
	err := r.t.State.Update(func(st *state.State) error {
		st.Own.Orphans = slices.DeleteFunc(st.Own.Orphans, func(o state.Orphan) bool { return r.asked.Attached[o.CID] })
		return nil
	})
	if err != nil {
		return err
	}
	return r.records.uninstallRest(ctx)
}

// takeOrphan makes the orphan of another instance, or of a deleted one, an orphan of the
// run's instance, which has several siblings. The other state keeps it until DropOrphans: a
// run that is killed loses no disk. A disk that a sibling uses may so be an orphan in other
// states.
func (r *diskRecord) takeOrphan() error {
	of, st := r.t.From.Of, r.t.State.Get()
	if of == nil {
		return nil
	}
	by, used, err := r.disks.usedBySibling(r.cid)
	switch {
	case err != nil:
		return err
	case used:
		return fmt.Errorf("disk %s belongs to %s, and is not an orphan; `bootstrap disks MANIFEST --orphaned` lists those", r.cid, by)
	}
	if _, err := orphanOf(st, r.cid); err == nil || plan.DiskOf(st, r.cid) != nil {
		return nil
	}
	for _, other := range slices.Concat(of.Record.Instances, of.Record.Former) {
		if other.ID == of.Instance.ID {
			continue
		}
		has, _, err := of.Record.ReadState(other, r.t.Env.Home)
		if err != nil {
			return err
		}
		o, err := orphanOf(has, r.cid)
		if err != nil {
			continue
		}
		o.Zone = cmp.Or(o.Zone, other.Zone)
		return r.t.State.Update(func(st *state.State) error {
			st.Own.Orphans = append(st.Own.Orphans, o)
			return nil
		})
	}
	return nil
}

// warnOfZone warns of an orphan from another zone than that of the instance.
func (r *diskRecord) warnOfZone(o state.Orphan) {
	name, zone := "the instance", r.t.State.Get().Own.Zone
	if of := r.t.From.Of; of != nil {
		name, zone = of.Instance.Name(), of.Instance.Zone
	}
	if o.Zone != "" && zone != "" && o.Zone != zone {
		r.t.Out.Warning(fmt.Sprintf("disk %s was made in the zone %q, and %s is in %q: the cloud may refuse to attach it", o.CID, o.Zone, name, zone))
	}
}

// confirmDelete asks before orphans are deleted.
func (r *diskRecord) confirmDelete(ctx context.Context) error {
	q := Question{Data: true}
	for _, cid := range r.orphans {
		o, err := orphanOf(r.t.State.Get(), cid)
		if err != nil {
			return err
		}
		q.What = append(q.What, deletesOrphan(o))
	}
	return r.question(ctx, q)
}

// deleteData runs the steps that delete the orphans.
func (r *diskRecord) deleteData(ctx context.Context) error {
	return r.runList(ctx, "deleting disk", func(plan.Decision) []plan.Step { return plan.DeleteDiskSteps(r.orphans) })
}

// whyKept returns why the disk of a deleted instance is an orphan.
func (ds *disks) whyKept() string {
	if of := ds.rec.From.Of; of != nil {
		switch why := of.Instance.Going; why {
		case "", deployed.Chosen, deployed.DeploymentDeleted:
		default:
			return fmt.Sprintf("the instance %s was deleted: %s", of.Instance.Name(), why)
		}
	}
	return "kept by delete --keep-disk"
}

// whyUnused returns why a disk is an orphan after its data was migrated to the current one.
func (ds *disks) whyUnused(st state.State) string {
	if ds.rec.From.Of != nil {
		return fmt.Sprintf("its data was migrated to disk %s", plan.CurrentDisk(st))
	}
	return "kept with --keep-old-disk; disk " + plan.CurrentDisk(st) + " is in use instead"
}

// keptFor returns the orphans of deleted instances that had the group and index of an
// instance, without those that other instances use.
func (ds *disks) keptFor(of *instance.Member) ([]state.Orphan, error) {
	var list []state.Orphan
	for _, former := range of.Record.Former {
		if former.Name() != of.Instance.Name() {
			continue
		}
		st, _, err := of.Record.ReadState(former, ds.rec.Env.Home)
		if err != nil {
			return nil, err
		}
		for _, o := range st.Own.Orphans {
			_, used, err := ds.usedBySibling(o.CID)
			if err != nil {
				return nil, err
			}
			if !used {
				list = append(list, o)
			}
		}
	}
	return list, nil
}

// usedBySibling returns the instance of the deployment whose state has the disk in use.
func (ds *disks) usedBySibling(cid string) (by string, used bool, err error) {
	of := ds.rec.From.Of
	if of == nil {
		return "", false, nil
	}
	for _, other := range of.Record.Instances {
		if other.ID == of.Instance.ID {
			continue
		}
		has, _, err := of.Record.ReadState(other, ds.rec.Env.Home)
		if err != nil || plan.DiskOf(has, cid) != nil {
			return other.Name(), err == nil, err
		}
	}
	return "", false, nil
}
