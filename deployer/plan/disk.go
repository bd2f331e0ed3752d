package plan

import (
	"slices"
	"strconv"

	"bootstrap/manifest"
	"bootstrap/state"
)

// Settled returns the state with the mounted disk as the current one: a killed run may
// have migrated, or created a first disk, before it could record that. changed reports
// whether the state changes.
func Settled(st state.State, f Facts) (settled state.State, changed bool) {
	mounted := withoutNamed(st, f.Mounted)
	if !f.Answers || len(mounted) != 1 || mounted[0] == CurrentDisk(st) {
		return st, false
	}
	d := DiskOf(st, mounted[0])
	if d == nil {
		return st, false
	}
	st.CurrentDiskID = d.ID
	return st, true
}

// CurrentDisk returns the CID of the current disk; empty: there is none.
func CurrentDisk(st state.State) string {
	if d := st.Disk(); d != nil {
		return d.CID
	}
	return ""
}

// DiskOf returns the disk with the CID; nil if there is none, or if it is an orphan.
func DiskOf(st state.State, cid string) *state.Disk {
	i := slices.IndexFunc(st.Disks, func(d state.Disk) bool { return d.CID == cid })
	if i < 0 {
		return nil
	}
	return &st.Disks[i]
}

// decideDisk decides what to do with the persistent disk, given the action for the VM.
func decideDisk(w Wishes, st state.State, f Facts, vm Action) (Change, error) {
	have := st.Disk()
	c := Change{What: Disk, Action: Keep}
	switch {
	case have == nil && w.Disk == nil:
		return c, nil
	case have == nil:
		c.Action, c.Name, c.Why = Create, strconv.Itoa(w.Disk.Size)+" MiB", []Reason{{Cause: NoDisk}}
		return c, nil
	case w.Disk == nil:
		c.Action, c.Name, c.Why = Orphan, have.CID, []Reason{{Cause: DiskUnwanted}}
		return c, nil
	}
	c.Name = have.CID
	c.Why = DiskReasons(*have, *w.Disk)
	switch {
	case w.Disk.Size < have.Size && !w.Asked.AllowShrink:
		return c, &ShrinkError{CID: have.CID, From: have.Size, To: w.Disk.Size}
	case len(c.Why) > 0 && w.SecondDisk.New && !w.Asked.RecreateDisks:
		return c, &NoSecondDiskError{Disk: have.CID, When: w.SecondDisk.When}
	case len(c.Why) > 0:
		c.Action = Migrate
	case w.Asked.RecreateDisks:
		c.Action, c.Why = Migrate, []Reason{{Cause: ByFlag, Subject: "--recreate-persistent-disks"}}
	case vm == Create || vm == Replace:
		c.Why = nil // it is only attached to the new VM
	case !slices.Contains(f.Mounted, have.CID):
		c.Action, c.Why = Attach, []Reason{{Cause: NotMounted}}
	}
	return c, nil
}

// diskWork returns the facts for the step of the disk.
func diskWork(w Wishes, st state.State, f Facts, vm, disk Action) DiskWork {
	have := st.Disk()
	if have == nil {
		return DiskWork{}
	}
	newVM := vm == Create || vm == Replace
	work := DiskWork{CID: have.CID, Mounted: !newVM && slices.Contains(f.Mounted, have.CID)}
	if disk != Migrate {
		return work
	}
	// Without the second disk, an agent refuses to migrate. If an interrupted run has
	// created one, the migration is repeated with it.
	for _, d := range st.Disks {
		if !st.Uses(d) && work.Mounted && slices.Contains(f.Mounted, d.CID) && len(DiskReasons(d, *w.Disk)) == 0 {
			work.Begun = d.CID
		}
	}
	if len(DiskReasons(*have, *w.Disk)) > 0 && !w.Asked.RecreateDisks && w.Disk.Size >= have.Size && w.API >= 2 {
		work.Method = "resize_disk"
		if !sameProperties(have.CloudProperties, w.Disk.CloudProperties) {
			work.Method = "update_disk"
		}
	}
	return work
}

// diskReplaces returns why a change of the disks needs a new VM; must is false if it does
// not.
func diskReplaces(w Wishes, st state.State, f Facts, disk Change, named []NamedWork) (why Reason, must bool) {
	foreign := slices.IndexFunc(f.Mounted, func(cid string) bool { return DiskOf(st, cid) == nil })
	attached := slices.ContainsFunc(st.Own.Orphans, func(o state.Orphan) bool { return o.VM != "" && o.VM == st.CurrentVMCID }) ||
		st.Own.GoneDiskVM != "" && st.Own.GoneDiskVM == st.CurrentVMCID
	switch {
	case disk.Action != Keep && foreign >= 0:
		// The agent would use the other disk as the target of a migration.
		return Reason{Cause: ForeignDisk, Subject: f.Mounted[foreign]}, true
	case disk.Action == Migrate && !w.SecondDisk.When.IsZero():
		return Reason{Cause: NoSecondDisk}, true
	case disk.Action == Orphan, attached:
		// The real agent fails at its next start after its only disk was removed with
		// remove_persistent_disk.
		return Reason{Cause: DiskTaken}, true
	case (disk.Action != Keep || namedChanges(named)) && w.API == 1:
		return Reason{Cause: NeedsNewVM}, true
	case w.API == 1 && f.Now.Deployment == "" && len(st.Disks) > 1:
		// The registry had the settings of this VM, and ended with the run that created
		// the VM.
		return Reason{Cause: TwoDisksAPI1}, true
	}
	return Reason{}, false
}

// DiskReasons lists the differences between a disk and the manifest.
func DiskReasons(have state.Disk, want manifest.DiskPool) []Reason {
	var why []Reason
	if have.Size != want.Size {
		why = append(why, Reason{Cause: DiskSize, From: strconv.Itoa(have.Size), To: strconv.Itoa(want.Size)})
	}
	var keys []string
	for k, v := range want.CloudProperties {
		if old, ok := have.CloudProperties[k]; !ok || !sameValue(old, v) {
			keys = append(keys, k)
		}
	}
	for k := range have.CloudProperties {
		if _, ok := want.CloudProperties[k]; !ok {
			keys = append(keys, k)
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		why = append(why, Reason{Cause: DiskProperties, Names: keys})
	}
	return why
}
