package instances

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// DeleteOrphans deletes orphaned disks of the instances without a question: the one with
// the CID opts.Disk, or all that became orphans before opts.OrphansBefore. It removes
// former instances that have no disks any more from the record.
func DeleteOrphans(ctx context.Context, opts deployer.Options, all *record.Record, list []*record.Instance) error {
	return OnStates(ctx, opts, all, list, deployer.DeleteDisk)
}

// DeleteKept is like DeleteOrphans for all former instances of a record. It removes states
// without resources, too, and reports which states remain: those with snapshots, or with CPI
// calls of an unknown outcome.
func DeleteKept(ctx context.Context, opts deployer.Options, all *record.Record) error {
	opts.OrphansBefore = time.Time{}
	var list, empty []*record.Instance
	snapshots := false
	for _, in := range all.Former {
		st, found, err := all.ReadState(in, opts.Home)
		if err != nil {
			return err
		}
		if !found || len(st.Own.Orphans) > 0 {
			list = append(list, in)
		} else if len(st.Owned()) == 0 { // a command removed its records
			empty = append(empty, in)
		}
		snapshots = snapshots || len(st.Own.Snapshots) > 0
		if len(st.Own.Leftovers) > 0 {
			opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: fmt.Sprintf(
				"CPI calls of the deleted instance %s may have left something in the cloud: its state stays, for `bootstrap state leftovers --state %s`", in.Name(), all.StatePath(in))})
		}
	}
	if err := OnStates(ctx, opts, all, empty, deployer.DropOrphans); err != nil {
		return err
	}
	if err := DeleteOrphans(ctx, opts, all, list); err != nil || !snapshots {
		return err
	}
	opts.Report(report.Event{Time: time.Now(), Kind: report.Info,
		Message: "Snapshots of deleted instances are kept, with the states that record them: `bootstrap disks snapshots MANIFEST` lists them"})
	return nil
}

// DropAttached removes a disk from the orphans of an instance if it is attached to another
// instance: a run was killed while it moved the disk.
func DropAttached(ctx context.Context, opts deployer.Options, all *record.Record) error {
	var list []*record.Instance
	used := map[string]*record.Instance{}
	states := map[*record.Instance]state.State{}
	for _, in := range slices.Concat(all.Instances, all.Former) {
		st, _, err := all.ReadState(in, opts.Home)
		if err != nil {
			return err
		}
		states[in] = st
		for _, d := range st.Disks {
			used[d.CID] = in
		}
	}
	for in, st := range states {
		if slices.ContainsFunc(st.Own.Orphans, func(o state.Orphan) bool { return used[o.CID] != nil }) {
			list = append(list, in)
		}
	}
	opts.Attached = map[string]bool{}
	for cid := range used {
		opts.Attached[cid] = true
	}
	return OnStates(ctx, opts, all, list, deployer.DropOrphans)
}

// OnStates calls do for each of the instances that has a state, without questions. It
// removes former instances from the record if do has removed their states.
func OnStates(ctx context.Context, opts deployer.Options, all *record.Record, list []*record.Instance, do func(context.Context, deployer.Options) error) error {
	show := opts.Report
	opts.Confirm, opts.Report = nil, func(e report.Event) {
		if e.Kind != report.Ended { // Users would take it for the end of the command.
			show(e)
		}
	}
	for _, in := range slices.Clone(list) {
		one := opts
		one.Instance = in.Group + "/" + in.ID
		err := one.Select(all, in)
		found := false
		if err == nil {
			found, err = file.Exists(one.StateFile)
		}
		if err == nil && found {
			err = do(ctx, one)
		}
		if err == nil {
			err = release(ctx, opts.Options, all, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release removes a former instance without a state from the record, and the record if
// nothing is left in it.
func release(ctx context.Context, of instance.Options, all *record.Record, in *record.Instance) error {
	if kept, err := file.Exists(all.StatePath(in)); kept || err != nil {
		return err
	}
	if _, former := all.FindFormer(in.Group + "/" + in.ID); !former {
		return nil
	}
	all.Release(in.ID)
	save := all.Save
	if !all.Needed() {
		save = all.Forget
	}
	if err := save(); err != nil {
		return err
	}
	return of.ForgetDeleted(ctx, in)
}
