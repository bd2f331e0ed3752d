package state

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// defects are the defects of a state.
type defects []error

func (p *defects) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// seen refuses a value that is empty or occurs twice.
func (p *defects) seen(before map[string]bool, where, what, value string) {
	switch {
	case strings.TrimSpace(value) == "":
		p.add("%s has no %s", where, what)
	case before[value]:
		p.add("%s has the %s %s, which another record has too", where, what, value)
	}
	before[value] = true
}

// Check refuses a state that must never be written or used. For example, CPIs have
// deleted whole clusters when they got an empty CID.
func (s *State) Check() error {
	var p defects
	if s.DirectorID == "" || s.InstallationID == "" {
		p.add("director_id or installation_id is empty")
	} else if _, err := uuid.Parse(s.InstallationID); err != nil {
		p.add("installation_id %q is not a UUID, and a folder is named after it", s.InstallationID)
	}
	if s.CurrentVMCID != "" && strings.TrimSpace(s.CurrentVMCID) == "" {
		p.add("current_vm_cid is blank")
	}
	s.checkRecords(&p)
	s.checkPointers(&p)
	s.Own.check(&p, s)
	return errors.Join(p...)
}

func (s *State) checkRecords(p *defects) {
	ids, cids := map[string]bool{}, map[string]bool{}
	for i, d := range s.Disks {
		where := fmt.Sprintf("disks[%d]", i)
		p.seen(ids, where, "id", d.ID)
		p.seen(cids, where, "cid", d.CID)
		if d.Size < 0 {
			p.add("%s has the size %d", where, d.Size)
		}
	}
	for i, o := range s.Own.Orphans {
		where := fmt.Sprintf("bootstrap.orphans[%d]", i)
		p.seen(cids, where, "cid", o.CID)
		if o.Size < 0 {
			p.add("%s has the size %d", where, o.Size)
		}
	}
	ids, cids = map[string]bool{}, map[string]bool{}
	for i, r := range s.Stemcells {
		where := fmt.Sprintf("stemcells[%d]", i)
		p.seen(ids, where, "id", r.ID)
		p.seen(cids, where, "cid", r.CID)
	}
	ids = map[string]bool{}
	for i, r := range s.Releases {
		where := fmt.Sprintf("releases[%d]", i)
		p.seen(ids, where, "id", r.ID)
		if r.Name == "" {
			p.add("%s has no name", where)
		}
	}
}

func (s *State) checkPointers(p *defects) {
	if s.CurrentStemcellID != "" && s.Stemcell() == nil {
		p.add("current_stemcell_id %s is not in stemcells", s.CurrentStemcellID)
	}
	if s.CurrentDiskID != "" && s.Disk() == nil {
		p.add("current_disk_id %s is not in disks", s.CurrentDiskID)
	}
	names, ids := map[string]bool{}, map[string]bool{}
	for i, n := range s.Own.NamedDisks {
		where := fmt.Sprintf("bootstrap.named_disks[%d]", i)
		p.seen(names, where, "name", n.Name)
		p.seen(ids, where, "id", n.ID)
		switch {
		case !s.hasDisk(n.ID):
			p.add("%s has the id %s, which is not in disks", where, n.ID)
		case n.ID == s.CurrentDiskID:
			p.add("%s has the id %s, which is that of the current disk", where, n.ID)
		}
	}
	for i, id := range s.CurrentReleaseIDs {
		if !s.hasRelease(id) {
			p.add("current_release_ids[%d] %s is not in releases", i, id)
		}
	}
}

func (s *State) hasRelease(id string) bool {
	return slices.ContainsFunc(s.Releases, func(r Release) bool { return r.ID == id })
}

func (o *Own) check(p *defects, s *State) {
	if o.Swap != nil {
		switch {
		case strings.TrimSpace(o.Swap.CID) == "":
			p.add("bootstrap.swap has no cid")
		case o.Swap.CID == s.CurrentVMCID:
			p.add("bootstrap.swap is VM %s, which is the current one", o.Swap.CID)
		}
	}
	ids := map[string]bool{}
	for i, a := range o.Addresses {
		where := fmt.Sprintf("bootstrap.addresses[%d]", i)
		if _, err := netip.ParseAddr(a.Address); err != nil {
			p.add("%s has the address %q, which is no IP address", where, a.Address)
		}
		p.seen(ids, where, "address", a.Address+" of network "+a.Network)
	}
	ids = map[string]bool{}
	for i, c := range o.Snapshots {
		p.seen(ids, fmt.Sprintf("bootstrap.snapshots[%d]", i), "cid", c.CID)
	}
	ids = map[string]bool{}
	for i, in := range o.Intents {
		in.check(p, fmt.Sprintf("bootstrap.intents[%d]", i), ids)
	}
	ids = map[string]bool{}
	for i, l := range o.Leftovers {
		l.Intent.check(p, fmt.Sprintf("bootstrap.leftovers[%d]", i), ids)
	}
}

// Check refuses an intent without the fields that recording its result needs;
// where is its place in the document.
func (in *Intent) Check(where string) error {
	var p defects
	in.check(&p, where, map[string]bool{})
	return errors.Join(p...)
}

func (in *Intent) check(p *defects, where string, ids map[string]bool) {
	p.seen(ids, where, "id", in.ID)
	switch call := in.Call(); {
	case in.Method == "":
		p.add("%s has no method", where)
	case call.has != nil && !call.has(*in):
		p.add("%s has no %s", where, call.needs)
	case in.Size < 0:
		p.add("%s has the size %d", where, in.Size)
	}
}

// Repair corrects what other tools leave behind. Like these tools, it removes pointers to
// records that do not exist. It also removes additional records of the same stemcell.
func (s *State) Repair() {
	s.mergeStemcells()
	if s.Stemcell() == nil {
		s.CurrentStemcellID = ""
	}
	if s.Disk() == nil {
		s.CurrentDiskID = ""
	}
	s.unname(func(id string) bool { return !s.hasDisk(id) })
	if slices.ContainsFunc(s.CurrentReleaseIDs, func(id string) bool { return !s.hasRelease(id) }) {
		s.CurrentReleaseIDs = nil
	}
	s.repairSwap()
}

// repairSwap removes the reference to the old VM's stemcell if the stemcell was
// deleted before the VM.
func (s *State) repairSwap() {
	swap := s.Own.Swap
	if swap != nil && find(s.Stemcells, func(r *Stemcell) bool { return r.ID == swap.StemcellID }) == nil {
		swap.StemcellID = ""
	}
}

// mergeStemcells leaves one record for each CID, if possible the current one.
// create-env writes several records for light stemcells with one CID, and deleting the
// unused one would delete the used one.
func (s *State) mergeStemcells() {
	current := s.Stemcell()
	if current == nil {
		current = &Stemcell{}
	}
	cid, id := current.CID, current.ID
	seen := map[string]bool{}
	s.Stemcells = slices.DeleteFunc(s.Stemcells, func(r Stemcell) bool {
		if r.CID == "" { // Check refuses it
			return false
		}
		drop := seen[r.CID] || r.CID == cid && r.ID != id
		if !drop {
			seen[r.CID] = true
		}
		return drop
	})
}
