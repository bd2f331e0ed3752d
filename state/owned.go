package state

import "slices"

// Kept ends an item of Owned that is an orphaned disk.
const Kept = " (kept)"

// Owned lists the resources in the cloud that the state records, in words for the user.
func (s *State) Owned() []string {
	var list []string
	if s.CurrentVMCID != "" {
		list = append(list, "VM "+s.CurrentVMCID)
	}
	if s.Own.Swap != nil {
		list = append(list, "VM "+s.Own.Swap.CID)
	}
	for _, d := range s.Disks {
		list = append(list, "disk "+d.CID)
	}
	for _, o := range s.Own.Orphans {
		list = append(list, "disk "+o.CID+Kept)
	}
	for _, r := range s.Stemcells {
		list = append(list, "stemcell "+r.CID)
	}
	for _, c := range s.Own.Snapshots {
		list = append(list, "snapshot "+c.CID)
	}
	for _, in := range s.Own.Intents {
		list = append(list, "an unfinished "+in.Method)
	}
	for _, l := range s.Own.Leftovers {
		list = append(list, "a leftover of "+l.Method)
	}
	return list
}

// Resources lists the resources in the cloud that the state records, each once, with its
// CID: "VM vm-1". It is used to compare versions of a state.
func (s *State) Resources() []string {
	var list []string
	add := func(kind, cid string) {
		if cid != "" && !slices.Contains(list, kind+" "+cid) {
			list = append(list, kind+" "+cid)
		}
	}
	add("VM", s.CurrentVMCID)
	if s.Own.Swap != nil {
		add("VM", s.Own.Swap.CID)
	}
	for _, d := range s.Disks {
		add("disk", d.CID)
	}
	for _, o := range s.Own.Orphans {
		add("disk", o.CID)
	}
	for _, r := range s.Stemcells {
		add("stemcell", r.CID)
	}
	for _, c := range s.Own.Snapshots {
		add("snapshot", c.CID)
	}
	return list
}

// Idle reports whether no deployment exists and no run is unfinished: everything was
// deleted or never created, except resources that are kept on purpose.
func (s *State) Idle() bool {
	return s.CurrentVMCID == "" && s.CurrentManifestSHA == "" && s.Own.Swap == nil &&
		len(s.Disks) == 0 && len(s.Stemcells) == 0 && len(s.Own.Intents) == 0
}
