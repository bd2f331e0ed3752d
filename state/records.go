package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Settle removes the intent and records its result under cid, unless cid is empty. A VM
// becomes the current one; if there is one already, that is an error, unless the intent
// replaces it. A changed disk gets its new size and properties, and the CID cid, which
// may be the same as before.
func (s *State) Settle(in Intent, cid string) error {
	s.Own.Intents = slices.DeleteFunc(s.Own.Intents, func(other Intent) bool { return other.ID == in.ID })
	if cid == "" {
		return nil
	}
	record := in.Call().record
	if record == nil {
		return fmt.Errorf("cannot record what %s created", in.Method)
	}
	return record(s, in, cid)
}

// settleStemcell records a stemcell. Several light stemcells may have the same CID; then
// there is one record, because deleting one of two would delete both. A stemcell that was
// uploaded again replaces the record of the lost one.
func (s *State) settleStemcell(in Intent, cid string) error {
	if in.Stemcell == nil {
		return fmt.Errorf("stemcell %s was created, and its name and version are unknown", cid)
	}
	made := *in.Stemcell
	made.CID = cid
	if gone := find(s.Stemcells, func(r *Stemcell) bool { return made.ID != "" && r.ID == made.ID }); gone != nil {
		*gone = made
		s.Repair() // another record may have that CID
		return nil
	}
	made.ID = uuid.NewString()
	if same := find(s.Stemcells, func(r *Stemcell) bool { return r.CID == cid }); same != nil {
		made.ID = same.ID
		*same = made
		return nil
	}
	s.Stemcells = append(s.Stemcells, made)
	return nil
}

func (s *State) settleChange(in Intent, cid string) error {
	d := find(s.Disks, func(d *Disk) bool { return d.CID == in.Disk })
	switch {
	case d == nil:
		return fmt.Errorf("disk %s replaced disk %s, which is not recorded", cid, in.Disk)
	case cid != in.Disk && s.ownsDisk(cid):
		return fmt.Errorf("disk %s replaced disk %s and is recorded already: the CPI gave the same CID twice", cid, in.Disk)
	}
	d.CID, d.Size, d.CloudProperties = cid, in.Size, nonNil(in.CloudProperties)
	return nil
}

func (s *State) settleVM(in Intent, cid string) error {
	switch {
	case s.ownsVM(cid):
		return fmt.Errorf("VM %s was created and is recorded already: the CPI gave the same CID twice", cid)
	case s.CurrentVMCID != "" && in.Replaces && s.Own.Swap == nil:
		s.Own.Swap = &OldVM{CID: s.CurrentVMCID, AgentID: s.Own.AgentID, StemcellID: s.CurrentStemcellID}
	case s.CurrentVMCID != "":
		return fmt.Errorf("VM %s was created while VM %s is recorded as the current one", cid, s.CurrentVMCID)
	}
	s.CurrentVMCID, s.CurrentStemcellID = cid, in.StemcellID
	// A VM must be recorded even if its stemcell is not.
	if s.Stemcell() == nil {
		s.CurrentStemcellID = ""
	}
	if s.Own.Detached {
		s.Own.Detached, s.Own.Stopped = false, false
	}
	s.Own.AgentID, s.Own.Group, s.Own.Address, s.Own.Reached = in.AgentID, in.Group, "", false
	s.Own.Made, s.Own.Applied, s.Own.Tagged = in.Made, nil, ""
	s.Own.ManifestSHA1 = ""
	s.Own.Created, s.Own.Unproven = nil, nil
	if !in.Started.IsZero() {
		created := in.Started.UTC()
		s.Own.Created = &created
	}
	return nil
}

// maxLeftovers is how many leftovers are kept; the oldest are removed first.
const maxLeftovers = 50

// LeaveBehind makes an intent with an unknown result a leftover, which replaces one with
// the same method and CID.
func (s *State) LeaveBehind(in Intent, why string) error {
	s.Own.Leftovers = slices.DeleteFunc(s.Own.Leftovers, func(l Leftover) bool {
		return in.CID != "" && l.CID == in.CID && l.Method == in.Method
	})
	s.Own.Leftovers = append(s.Own.Leftovers, Leftover{Intent: in, Why: why})
	s.Own.Leftovers = s.Own.Leftovers[max(0, len(s.Own.Leftovers)-maxLeftovers):]
	return s.Settle(in, "")
}

// Forget removes every record of the object that a CPI method deleted under this CID, and
// the pointers to it.
func (s *State) Forget(method, cid string) {
	if forget := CallOf(method).forget; forget != nil {
		forget(s, cid)
	}
	s.Repair()
}

// Orphan moves a disk from Disks, where create-env may delete it, to the orphans. If it
// was the current disk, there is no current one after that.
func (s *State) Orphan(d Disk, why string, now time.Time) {
	name, vm := s.NameOf(d.CID), ""
	if s.Attached(name) {
		vm = s.CurrentVMCID
	}
	s.Disks = slices.DeleteFunc(s.Disks, func(other Disk) bool { return other.ID == d.ID || other.CID == d.CID })
	if s.CurrentDiskID == d.ID {
		s.CurrentDiskID = ""
	}
	s.unname(func(id string) bool { return id == d.ID })
	if slices.ContainsFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == d.CID }) {
		return
	}
	s.Own.Orphans = append(s.Own.Orphans, Orphan{
		CID: d.CID, Size: d.Size, CloudProperties: nonNil(d.CloudProperties),
		Since: now.UTC().Truncate(time.Second), Why: why, Name: name, VM: vm, Zone: s.Own.Zone,
	})
}

// Adopt moves an orphan back to Disks, under a new id, and returns it. It becomes neither
// the current disk nor a named one. ok is false if there is no such orphan.
func (s *State) Adopt(cid string) (d Disk, ok bool) {
	i := slices.IndexFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
	if i < 0 {
		return Disk{}, false
	}
	o := s.Own.Orphans[i]
	s.Own.Orphans = slices.Delete(s.Own.Orphans, i, i+1)
	d = Disk{ID: uuid.NewString(), CID: o.CID, Size: o.Size, CloudProperties: nonNil(o.CloudProperties)}
	s.Disks = append(s.Disks, d)
	return d, true
}

// Owns reports whether the state records a VM, a disk, an orphan, a stemcell or a snapshot
// with that CID. Only these may be deleted.
func (s *State) Owns(cid string) bool {
	return cid != "" && (s.ownsVM(cid) || s.ownsDisk(cid) ||
		slices.ContainsFunc(s.Own.Snapshots, func(o Snapshot) bool { return o.CID == cid }) ||
		slices.ContainsFunc(s.Stemcells, func(r Stemcell) bool { return r.CID == cid }))
}

func (s *State) ownsVM(cid string) bool {
	return s.CurrentVMCID == cid || s.Own.Swap != nil && s.Own.Swap.CID == cid
}

func (s *State) ownsDisk(cid string) bool {
	return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.CID == cid }) ||
		slices.ContainsFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
}

// nonNil replaces nil by an empty map, which is written as {}, not null, as create-env
// does.
func nonNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
