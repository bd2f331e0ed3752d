package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Settle drops the intent with that id and, where its call created something,
// records it under cid. A VM becomes the current one; it is an error if there
// is one already, unless the intent replaces it. A disk that was changed is
// recorded as what it is now, under cid, which may be its own.
func (s *State) Settle(in Intent, cid string) error {
	s.Own.Intents = slices.DeleteFunc(s.Own.Intents, func(other Intent) bool { return other.ID == in.ID })
	if cid == "" {
		return nil
	}
	switch in.Method {
	case "create_stemcell":
		return s.settleStemcell(in, cid)
	case "create_disk":
		if s.ownsDisk(cid) {
			return fmt.Errorf("disk %s was created and is recorded already: the CPI gave the same CID twice", cid)
		}
		s.Disks = append(s.Disks, Disk{ID: uuid.NewString(), CID: cid, Size: in.Size, CloudProperties: nonNil(in.CloudProperties)})
		return nil
	case "create_vm":
		return s.settleVM(in, cid)
	case "resize_disk", "update_disk":
		return s.settleChange(in, cid)
	case "snapshot_disk":
		if !slices.ContainsFunc(s.Own.Snapshots, func(o Snapshot) bool { return o.CID == cid }) {
			s.Own.Snapshots = append(s.Own.Snapshots, Snapshot{CID: cid, Disk: in.Disk, Taken: in.Started})
		}
		return nil
	}
	return fmt.Errorf("what %s created cannot be recorded", in.Method)
}

// settleStemcell records a stemcell. Light stemcells may share one CID: there
// is one record of it, or deleting one of two would take the other along. One
// that is uploaded again takes the place of the one that is gone.
func (s *State) settleStemcell(in Intent, cid string) error {
	if in.Stemcell == nil {
		return fmt.Errorf("stemcell %s was created and nobody knows its name and version", cid)
	}
	made := *in.Stemcell
	made.CID = cid
	if gone := find(s.Stemcells, func(r *Stemcell) bool { return made.ID != "" && r.ID == made.ID }); gone != nil {
		*gone = made
		s.mend() // another record may have that CID
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
		return fmt.Errorf("disk %s took the place of disk %s, which is not recorded", cid, in.Disk)
	case cid != in.Disk && s.ownsDisk(cid):
		return fmt.Errorf("disk %s took the place of disk %s and is recorded already: the CPI gave the same CID twice", cid, in.Disk)
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
	// A VM must be recorded even if its stemcell's record is lost.
	if s.Stemcell() == nil {
		s.CurrentStemcellID = ""
	}
	s.Own.AgentID, s.Own.Group, s.Own.Address, s.Own.Reached = in.AgentID, in.Group, "", false
	s.Own.Made, s.Own.Applied = in.Made, nil
	s.Own.ManifestSHA1 = ""
	return nil
}

// maxLeftovers is how many leftovers are kept; the oldest go first.
const maxLeftovers = 50

// LeaveBehind turns an intent whose outcome nobody can tell into a leftover, in
// the place of one that is about the same thing.
func (s *State) LeaveBehind(in Intent, why string) error {
	s.Own.Leftovers = slices.DeleteFunc(s.Own.Leftovers, func(l Leftover) bool {
		return in.CID != "" && l.CID == in.CID && l.Method == in.Method
	})
	s.Own.Leftovers = append(s.Own.Leftovers, Leftover{Intent: in, Why: why})
	s.Own.Leftovers = s.Own.Leftovers[max(0, len(s.Own.Leftovers)-maxLeftovers):]
	return s.Settle(in, "")
}

// Forget drops every record of what a CPI method that deletes was called for
// with this CID, and the pointers to it.
func (s *State) Forget(method, cid string) {
	switch method {
	case "delete_vm":
		if s.CurrentVMCID == cid {
			s.CurrentVMCID = ""
			s.Own.AgentID, s.Own.Address, s.Own.Group, s.Own.Reached = "", "", "", false
			s.Own.Made, s.Own.Applied = nil, nil
		}
		if s.Own.Swap != nil && s.Own.Swap.CID == cid {
			s.Own.Swap = nil
		}
	case "delete_disk":
		s.Disks = slices.DeleteFunc(s.Disks, func(d Disk) bool { return d.CID == cid })
		s.Own.Orphans = slices.DeleteFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
	case "delete_stemcell":
		s.Stemcells = slices.DeleteFunc(s.Stemcells, func(r Stemcell) bool { return r.CID == cid })
	}
	s.mend()
}

// Orphan moves a disk from the records that create-env may delete to those
// that are kept until somebody says; the current disk is none any more.
func (s *State) Orphan(d Disk, why string, now time.Time) {
	s.Disks = slices.DeleteFunc(s.Disks, func(other Disk) bool { return other.ID == d.ID || other.CID == d.CID })
	if s.CurrentDiskID == d.ID {
		s.CurrentDiskID = ""
	}
	if slices.ContainsFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == d.CID }) {
		return
	}
	s.Own.Orphans = append(s.Own.Orphans, Orphan{
		CID: d.CID, Size: d.Size, CloudProperties: nonNil(d.CloudProperties),
		Since: now.UTC().Truncate(time.Second), Why: why,
	})
}

// Adopt moves an orphan back to the disks, under a new id, and returns its
// record, which is not the current one yet. It tells whether there was such
// an orphan.
func (s *State) Adopt(cid string) (Disk, bool) {
	i := slices.IndexFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
	if i < 0 {
		return Disk{}, false
	}
	o := s.Own.Orphans[i]
	s.Own.Orphans = slices.Delete(s.Own.Orphans, i, i+1)
	d := Disk{ID: uuid.NewString(), CID: o.CID, Size: o.Size, CloudProperties: nonNil(o.CloudProperties)}
	s.Disks = append(s.Disks, d)
	return d, true
}

// Owns tells whether the state records a VM, a disk, an orphan or a stemcell
// under that CID. What it does not own must not be deleted.
func (s *State) Owns(cid string) bool {
	return cid != "" && (s.ownsVM(cid) || s.ownsDisk(cid) ||
		slices.ContainsFunc(s.Stemcells, func(r Stemcell) bool { return r.CID == cid }))
}

func (s *State) ownsVM(cid string) bool {
	return s.CurrentVMCID == cid || s.Own.Swap != nil && s.Own.Swap.CID == cid
}

func (s *State) ownsDisk(cid string) bool {
	return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.CID == cid }) ||
		slices.ContainsFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
}

// nonNil is the way create-env writes properties: {}, not null.
func nonNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
