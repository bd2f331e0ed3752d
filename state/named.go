package state

import "slices"

// Uses reports whether the disk is the current one or has a name: the others are unused.
func (s *State) Uses(d Disk) bool {
	return d.ID == s.CurrentDiskID || slices.ContainsFunc(s.Own.NamedDisks, func(n NamedDisk) bool { return n.ID == d.ID })
}

// UsedDisks returns the disks in use: the current one, then those with names.
func (s *State) UsedDisks() []Disk {
	var list []Disk
	if d := s.Disk(); d != nil {
		list = append(list, *d)
	}
	for _, n := range s.Own.NamedDisks {
		if d := s.Named(n.Name); d != nil {
			list = append(list, *d)
		}
	}
	return list
}

// Named returns the disk with that name, or nil.
func (s *State) Named(name string) *Disk {
	n := find(s.Own.NamedDisks, func(n *NamedDisk) bool { return n.Name == name })
	if n == nil {
		return nil
	}
	return find(s.Disks, func(d *Disk) bool { return d.ID == n.ID })
}

// NameOf returns the name of the disk with that CID, also of an orphan; empty: it has none.
func (s *State) NameOf(cid string) string {
	d := find(s.Disks, func(d *Disk) bool { return d.CID == cid })
	n := find(s.Own.NamedDisks, func(n *NamedDisk) bool { return d != nil && n.ID == d.ID })
	if n != nil {
		return n.Name
	}
	if o := find(s.Own.Orphans, func(o *Orphan) bool { return o.CID == cid }); o != nil {
		return o.Name
	}
	return ""
}

// SetNamed records the disk with that name, and the VM to which it is attached under it.
// Another disk with the name becomes unused.
func (s *State) SetNamed(name, id, vm string) {
	n := NamedDisk{Name: name, ID: id, VM: vm}
	if have := find(s.Own.NamedDisks, func(n *NamedDisk) bool { return n.Name == name }); have != nil {
		n.unknown = have.unknown
		*have = n
		return
	}
	s.Own.NamedDisks = append(s.Own.NamedDisks, n)
}

// Attached reports whether the disk with that name is attached to the current VM under it.
func (s *State) Attached(name string) bool {
	n := find(s.Own.NamedDisks, func(n *NamedDisk) bool { return n.Name == name })
	return n != nil && s.CurrentVMCID != "" && n.VM == s.CurrentVMCID
}

// DoubtNamed records of each named disk that it may not be attached, unless a later state
// has the same disk attached to the same VM: a deploy attaches it then. The agent reports
// only mounted disks.
func (s *State) DoubtNamed(later State) {
	for i := range s.Own.NamedDisks {
		n := &s.Own.NamedDisks[i]
		d, now := s.Named(n.Name), later.Named(n.Name)
		if d == nil || now == nil || d.CID != now.CID || n.VM != later.CurrentVMCID || !later.Attached(n.Name) {
			n.VM = ""
		}
	}
}

// unname removes the names of disks for which drop is true.
func (s *State) unname(drop func(id string) bool) {
	s.Own.NamedDisks = slices.DeleteFunc(slices.Clone(s.Own.NamedDisks), func(n NamedDisk) bool { return drop(n.ID) })
	if len(s.Own.NamedDisks) == 0 {
		s.Own.NamedDisks = nil
	}
}

// hasDisk reports whether Disks has a record with that id.
func (s *State) hasDisk(id string) bool {
	return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.ID == id })
}
