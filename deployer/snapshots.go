package deployer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// TakeSnapshot takes a snapshot of each disk in use, while the jobs run.
func TakeSnapshot(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := &snapshotRecord{run: newRun(opts)}
	return r.execute(ctx, r.takePhases())
}

// DeleteSnapshots deletes the snapshot with the CID opts.Disk; if that is empty, all that
// were taken before opts.OrphansBefore.
func DeleteSnapshots(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := &snapshotRecord{run: newRun(opts), cid: opts.Disk, before: opts.OrphansBefore}
	return r.execute(ctx, r.deletePhases())
}

// RestoreSnapshot makes a new disk with the data of the snapshot opts.Disk, and makes it
// the current one; made is the CID of such a disk if a person has already made it. The
// next deploy attaches the disk. The disk that was the current one becomes an orphan.
func RestoreSnapshot(ctx context.Context, opts Options, made string) error {
	opts.Inputs.Generate = document.Refuse
	r := &snapshotRecord{run: newRun(opts), cid: opts.Disk, made: made}
	return r.execute(ctx, r.restorePhases())
}

// cannotSnapshot returns the error if the CPI cannot take a snapshot of a disk.
func cannotSnapshot(disk string) error {
	return fmt.Errorf("the CPI cannot take a snapshot of the disk %s, and nothing was changed; take one with the tools of the cloud", disk)
}

// cannotRestore returns the error if the CPI cannot make a disk from a snapshot.
func cannotRestore(cid string) error {
	return fmt.Errorf("the CPI cannot make a disk from the snapshot %s; nothing was changed. Make one in the cloud, with the size and the zone of the old disk, then run `bootstrap disks snapshots restore MANIFEST %s --disk CID`", cid, cid)
}

// snapshotRecord is a run about snapshots.
type snapshotRecord struct {
	*run
	cid    string           // of the snapshot; empty: all since before a time
	before time.Time        // delete: that time
	made   string           // restore: CID of the disk that a person has made; empty: the CPI makes one
	found  []state.Snapshot // find snapshots: those that are deleted, or the one that is restored
}

func (r *snapshotRecord) findDisk(context.Context) error {
	if st := r.t.State.Get(); len(st.UsedDisks()) == 0 {
		return fmt.Errorf("there is no current disk to take a snapshot of; %s", recordedDisks(st))
	}
	return nil
}

// snapshotOf returns the intent of a snapshot of a disk.
func snapshotOf(st state.State, disk string) state.Intent {
	in := state.Intent{Method: "snapshot_disk", Disk: disk}
	if d := plan.DiskOf(st, disk); d != nil {
		in.Size, in.CloudProperties = d.Size, d.CloudProperties
	}
	return in
}

// take takes a snapshot of each disk in use, as a Director does.
func (r *snapshotRecord) take(ctx context.Context) error {
	for _, d := range r.used() {
		if err := r.takeOf(ctx, d.CID); err != nil {
			return err
		}
	}
	return nil
}

func (r *snapshotRecord) used() []state.Disk {
	st := r.t.State.Get()
	return st.UsedDisks()
}

func (r *snapshotRecord) takeOf(ctx context.Context, disk string) error {
	st := r.t.State.Get()
	return r.t.Out.Do(fmt.Sprintf("Taking a snapshot of disk '%s'", disk), func(s *report.Stage) error {
		cid, err := r.journal.Create(ctx, snapshotOf(st, disk), func(c *cpi.Client) (string, error) {
			return c.SnapshotDisk(ctx, disk, r.metadata())
		})
		if cpi.NotImplemented(err) || cpi.NotSupported(err) {
			return cannotSnapshot(disk)
		}
		if err == nil {
			s.Info(fmt.Sprintf("  Took snapshot '%s' of disk '%s'", cid, disk))
		}
		return err
	})
}

// metadata returns the tags of a snapshot.
func (r *snapshotRecord) metadata() map[string]string {
	about := r.t.About
	tags := map[string]string{
		"deployment": about.Name, "instance_group": about.Group, "instance_index": strconv.Itoa(about.Index), "director": director,
	}
	maps.Copy(tags, about.Tags)
	return tags
}

// unknownSnapshot returns the error for a snapshot that the state does not record.
func unknownSnapshot(cid string) error {
	return fmt.Errorf("there is no snapshot %q: `bootstrap disks snapshots MANIFEST` lists those that are recorded", cid)
}

func (r *snapshotRecord) findOne(context.Context) error {
	all := r.t.State.Get().Own.Snapshots
	i := slices.IndexFunc(all, func(s state.Snapshot) bool { return s.CID == r.cid })
	if i < 0 {
		return unknownSnapshot(r.cid)
	}
	r.found = all[i : i+1]
	return nil
}

func (r *snapshotRecord) findOld(ctx context.Context) error {
	if r.cid != "" {
		return r.findOne(ctx)
	}
	for _, s := range r.t.State.Get().Own.Snapshots {
		if s.Taken.Before(r.before) {
			r.found = append(r.found, s)
		}
	}
	if len(r.found) == 0 {
		if r.t.From.Of == nil {
			r.t.Out.Info("No snapshot is that old: nothing to delete")
		}
		return errDone
	}
	return nil
}

// DeletesSnapshot returns the line of a question about a snapshot that is deleted. instance
// is the one of several that has it; empty: there is only one.
func DeletesSnapshot(s state.Snapshot, instance string) string {
	disk := s.Disk
	if instance != "" {
		disk += " of " + instance
	}
	return fmt.Sprintf("snapshot %s of disk %s is deleted with its data", s.CID, disk)
}

func (r *snapshotRecord) confirmDelete(ctx context.Context) error {
	q := Question{Data: true}
	for _, s := range r.found {
		q.What = append(q.What, DeletesSnapshot(s, ""))
	}
	return r.question(ctx, q)
}

func (r *snapshotRecord) delete(ctx context.Context) error {
	for _, s := range r.found {
		err := r.t.Out.Do(fmt.Sprintf("Deleting snapshot '%s'", s.CID), func(*report.Stage) error {
			return r.journal.Delete(ctx, state.Intent{Method: "delete_snapshot", CID: s.CID}, func(c *cpi.Client) error { return c.DeleteSnapshot(ctx, s.CID) })
		})
		if err != nil {
			return err
		}
	}
	return r.records.uninstallRest(ctx)
}

// refuseMissing refuses a disk that a person has named, if it does not exist or the state
// records it.
func (r *snapshotRecord) refuseMissing(ctx context.Context) error {
	if r.made == "" {
		return nil
	}
	if st := r.t.State.Get(); plan.DiskOf(st, r.made) != nil {
		return fmt.Errorf("disk %s is recorded already; %s", r.made, recordedDisks(st))
	}
	if _, err := orphanOf(r.t.State.Get(), r.made); err == nil {
		return fmt.Errorf("disk %s is an orphan: `bootstrap disks attach MANIFEST %s` makes it the current one", r.made, r.made)
	}
	c, err := r.t.CPI.Client(ctx)
	if err != nil {
		return err
	}
	there, err := c.HasDisk(ctx, r.made)
	switch {
	case cpi.NotImplemented(err):
		r.t.Out.Warning(fmt.Sprintf("the CPI cannot tell whether disk %s exists", r.made))
		return nil
	case err == nil && !there:
		return fmt.Errorf("there is no disk %s in the cloud: correct --disk", r.made)
	}
	return err
}

// sizeOfSource returns the size and the cloud_properties of the disk of a snapshot.
func sizeOfSource(st state.State, s state.Snapshot) (size int, props map[string]any, err error) {
	if s.Size > 0 {
		return s.Size, s.CloudProperties, nil
	}
	if d := plan.DiskOf(st, s.Disk); d != nil {
		return d.Size, d.CloudProperties, nil
	}
	if o, err := orphanOf(st, s.Disk); err == nil {
		return o.Size, o.CloudProperties, nil
	}
	return 0, nil, fmt.Errorf("the size of the snapshot %s is unknown: an earlier bootstrap has taken it, and its disk is not recorded any more; make a disk from it in the cloud, then run `bootstrap disks snapshots restore MANIFEST %s --disk CID`", s.CID, s.CID)
}

func (r *snapshotRecord) restore(ctx context.Context) error {
	s, st := r.found[0], r.t.State.Get()
	size, props, err := sizeOfSource(st, s)
	if d := st.Disk(); err != nil && r.made != "" && d != nil {
		// A person has made the disk, and only the cloud knows its size.
		size, props, err = d.Size, d.CloudProperties, nil
		r.t.Out.Warning(fmt.Sprintf("the size of disk %s is unknown: it is recorded with the %d MiB of the current disk; if it has another one, correct size in the state", r.made, size))
	}
	if err != nil {
		return err
	}
	if props == nil {
		props = map[string]any{}
	}
	cid := r.made
	if cid == "" {
		if cid, err = r.create(ctx, s, size, props); err != nil {
			return err
		}
	}
	if r.t.From.RefuseFormer() != nil {
		return r.keepRestored(s, cid, size, props)
	}
	replaced := func(st *state.State) *state.Disk {
		if s.Name != "" {
			return st.Named(s.Name)
		}
		return st.Disk()
	}
	err = r.t.State.Update(func(st *state.State) error {
		if have := replaced(st); have != nil {
			st.Orphan(*have, "snapshot "+s.CID+" of disk "+s.Disk+" was restored in its place", time.Now())
		}
		d := plan.DiskOf(*st, cid)
		if d == nil {
			st.AddDisk(cid, size, props)
			d = plan.DiskOf(*st, cid)
		}
		if s.Name != "" {
			st.SetNamed(s.Name, d.ID, "")
			return nil
		}
		st.CurrentDiskID = d.ID
		return nil
	})
	if err != nil {
		return err
	}
	is := "the current one now"
	if s.Name != "" {
		is = "named " + s.Name + " now"
	}
	r.t.Out.Info(fmt.Sprintf("Disk '%s', with the data of snapshot '%s', is %s: the next deploy attaches it", cid, s.CID, is))
	if d := replaced(&st); d != nil {
		r.t.Out.Info(fmt.Sprintf("Disk '%s' is kept as an orphan", d.CID))
	}
	return nil
}

// keepRestored records a disk with the data of a snapshot as an orphan: its instance was
// deleted, so that no deploy attaches it.
func (r *snapshotRecord) keepRestored(s state.Snapshot, cid string, size int, props map[string]any) error {
	err := r.t.State.Update(func(st *state.State) error {
		if plan.DiskOf(*st, cid) == nil {
			st.AddDisk(cid, size, props)
		}
		st.Orphan(*plan.DiskOf(*st, cid), "snapshot "+s.CID+" of disk "+s.Disk+" was restored", time.Now())
		return nil
	})
	if err != nil {
		return err
	}
	group := r.t.From.Of.Instance.Group
	r.t.Out.Info(fmt.Sprintf("Disk '%s', with the data of snapshot '%s', is an orphan, because its instance was deleted: `bootstrap disks attach MANIFEST %s/INDEX %s` gives it to another one", cid, s.CID, group, cid))
	return nil
}

// create makes a disk with the data of a snapshot.
func (r *snapshotRecord) create(ctx context.Context, s state.Snapshot, size int, props map[string]any) (cid string, err error) {
	c, err := r.t.CPI.Client(ctx)
	if err != nil {
		return "", err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(info.Extensions, cpi.DiskFromSnapshot) {
		return "", cannotRestore(s.CID)
	}
	vm := r.t.State.Get().CurrentVMCID
	with := maps.Clone(props)
	with[cpi.SnapshotProperty] = s.CID
	err = r.t.Out.Do(fmt.Sprintf("Creating a disk from snapshot '%s'", s.CID), func(*report.Stage) error {
		cid, err = r.journal.Create(ctx, state.Intent{Method: "create_disk", Size: size, CloudProperties: props}, func(c *cpi.Client) (string, error) {
			return c.CreateDisk(ctx, size, with, vm)
		})
		return err
	})
	return cid, err
}
