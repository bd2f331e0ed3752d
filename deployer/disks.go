package deployer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// AttachDisk makes the orphan with the CID opts.Disk the current disk, which the
// next deploy attaches. It needs only the state file.
func AttachDisk(ctx context.Context, opts Options) error {
	r := newRun(opts)
	d := &diskRecord{run: r, cid: opts.Disk}
	return r.execute(ctx, d.attachPhases())
}

// DeleteDisk deletes the orphan with the CID opts.Disk and its data; if that is empty, all
// orphans since before opts.OrphansBefore. It uses the CPI that is installed on this
// machine, or installs it from the manifest.
func DeleteDisk(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	d := &diskRecord{run: r, cid: opts.Disk}
	return r.execute(ctx, d.deletePhases())
}

// ForgetDisk removes the record of the disk with the CID opts.Disk, or of the current one
// if that is empty. The CPI must say that the disk does not exist; with opts.Force it is
// not asked.
func ForgetDisk(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	d := &diskRecord{run: r, cid: opts.Disk}
	if opts.Force {
		return r.execute(ctx, d.forceForgetPhases())
	}
	return r.execute(ctx, d.forgetPhases())
}

// diskRecord changes the record of a disk.
type diskRecord struct {
	*run
	cid     string
	orphans []string // find orphans: CIDs of those that are deleted
}

// orphanOf returns the orphan with the CID.
func orphanOf(st state.State, cid string) (state.Orphan, error) {
	i := slices.IndexFunc(st.Own.Orphans, func(o state.Orphan) bool { return o.CID == cid })
	if i >= 0 {
		return st.Own.Orphans[i], nil
	}
	switch d := plan.DiskOf(st, cid); {
	case d == nil:
		return state.Orphan{}, fmt.Errorf("there is no disk %q; %s", cid, recordedDisks(st))
	case d.ID == st.CurrentDiskID:
		return state.Orphan{}, fmt.Errorf("disk %s is the current one, not an orphan", cid)
	case st.Uses(*d):
		return state.Orphan{}, fmt.Errorf("disk %s is in use under the name %s, so it is not an orphan", cid, st.NameOf(cid))
	}
	return state.Orphan{}, fmt.Errorf("disk %s is unused, not an orphan: the next deploy deletes it", cid)
}

// recordedDisks describes the disks in the state file.
func recordedDisks(st state.State) string {
	var list []string
	for _, d := range st.Disks {
		use := "unused"
		switch {
		case d.ID == st.CurrentDiskID:
			use = "current"
		case st.Uses(d):
			use = "named " + st.NameOf(d.CID)
		}
		list = append(list, fmt.Sprintf("%s (%s)", d.CID, use))
	}
	for _, o := range st.Own.Orphans {
		list = append(list, o.CID+" (orphan)")
	}
	if len(list) == 0 {
		return "the state file records none: `bootstrap status MANIFEST` shows which deployment it is of"
	}
	return "the state file records " + strings.Join(list, ", ") + ": `bootstrap disks MANIFEST` shows them"
}

// attach makes the orphan the current disk.
func (r *diskRecord) attach(context.Context) error {
	if err := r.takeOrphan(); err != nil {
		return err
	}
	cid, st := r.cid, r.t.State.Get()
	orphan, err := orphanOf(st, cid)
	if err != nil {
		return err
	}
	r.warnOfZone(orphan)
	if orphan.Name != "" {
		return r.attachNamed(orphan)
	}
	if d := st.Disk(); d != nil && r.t.From.Of == nil {
		return fmt.Errorf("disk %s cannot be attached: disk %s is the current one, and a deployment has only one; to exchange them, remove persistent_disk_pool from the manifest and deploy, which keeps the current one as an orphan; then add persistent_disk_pool again, and attach", cid, d.CID)
	}
	err = r.t.State.Update(func(st *state.State) error {
		if have := st.Disk(); have != nil { // Of several instances, as a Director does.
			st.Orphan(*have, "disk "+cid+" was attached in its place", time.Now())
		}
		d, _ := st.Adopt(cid)
		st.CurrentDiskID = d.ID
		return nil
	})
	if err != nil {
		return err
	}
	r.t.Out.Info(fmt.Sprintf("Disk '%s' is the current one now: the next deploy attaches it, if the manifest asks for a persistent disk", cid))
	return nil
}

// attachNamed gives an orphan its name again.
func (r *diskRecord) attachNamed(o state.Orphan) error {
	st := r.t.State.Get()
	if have := st.Named(o.Name); have != nil && r.t.From.Of == nil {
		return fmt.Errorf("disk %s cannot be attached: disk %s is in use under the name %s; to exchange them, remove that disk from persistent_disks and deploy, which keeps it as an orphan; then attach, add it to the manifest again, and deploy", o.CID, have.CID, o.Name)
	}
	err := r.t.State.Update(func(st *state.State) error {
		if have := st.Named(o.Name); have != nil { // Of several instances, as a Director does.
			st.Orphan(*have, "disk "+o.CID+" was attached in its place", time.Now())
		}
		d, _ := st.Adopt(o.CID)
		st.SetNamed(o.Name, d.ID, "")
		return nil
	})
	if err != nil {
		return err
	}
	r.t.Out.Info(fmt.Sprintf("Disk '%s' is named %s again: the next deploy attaches it, if persistent_disks of the manifest has that name", o.CID, o.Name))
	return nil
}

// find finds the disk whose record is removed.
func (r *diskRecord) find(context.Context) error {
	st := r.t.State.Get()
	if r.cid == "" {
		if r.cid = plan.CurrentDisk(st); r.cid == "" {
			return fmt.Errorf("there is no current disk; %s", recordedDisks(st))
		}
		return nil
	}
	_, err := orphanOf(st, r.cid)
	if err != nil && plan.DiskOf(st, r.cid) == nil {
		return err
	}
	return nil
}

// confirmForget asks before the record of a disk is removed without asking the CPI.
func (r *diskRecord) confirmForget(ctx context.Context) error {
	return r.question(ctx, Question{What: []string{fmt.Sprintf("the state file forgets disk %s; if the disk exists, it stays in the cloud, unknown to bootstrap", r.cid)}})
}

// refuseExisting keeps the record of a disk that exists or may exist, because only the
// state has its CID.
func (r *diskRecord) refuseExisting(ctx context.Context) error {
	cid := r.cid
	return r.t.Out.Do(fmt.Sprintf("Looking for disk '%s'", cid), func(*report.Stage) error {
		c, err := r.t.CPI.Client(ctx)
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

// forget removes the record.
func (r *diskRecord) forget(context.Context) error {
	cid := r.cid
	if err := r.t.State.Update(func(st *state.State) error { st.Forget("delete_disk", cid); return nil }); err != nil {
		return err
	}
	r.t.Out.Info(fmt.Sprintf("Disk '%s' is forgotten", cid))
	return nil
}
