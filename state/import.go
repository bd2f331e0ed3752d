package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Import contains existing CIDs that the state does not record. An empty field is not
// imported.
type Import struct {
	VM      string // CID
	AgentID string // the agent id with which the VM was created

	Disk     string // CID
	DiskSize int    // MiB; 0: unknown, so that the next deploy moves the content to a disk of known size

	Stemcell Stemcell // its ID is ignored
}

// Import records the CIDs: the VM and the disk as the current ones, the stemcell as the
// VM's. If the state has a current one already, that is an error.
func (s *State) Import(in Import) error {
	return errors.Join(s.importVM(in), s.importDisk(in), s.importStemcell(in))
}

func (s *State) importVM(in Import) error {
	switch {
	case in.VM == "" && in.AgentID != "":
		return errors.New("an agent id is given, and no VM")
	case in.VM == "":
		return nil
	case s.CurrentVMCID != "" && s.CurrentVMCID != in.VM:
		return fmt.Errorf("VM %s is recorded as the current one already", s.CurrentVMCID)
	case s.Own.Swap != nil && s.Own.Swap.CID == in.VM:
		return fmt.Errorf("VM %s is recorded as one that another VM has replaced", in.VM)
	}
	s.CurrentVMCID, s.Own.AgentID = in.VM, in.AgentID
	// A VM whose agent was never reached is replaced without a question.
	s.Own.Reached = true
	return nil
}

func (s *State) importDisk(in Import) error {
	switch {
	case in.Disk == "" && in.DiskSize != 0:
		return errors.New("the size of a disk is given, and no disk")
	case in.Disk == "":
		return nil
	case in.DiskSize < 0:
		return fmt.Errorf("the disk has the size %d", in.DiskSize)
	}
	if d := s.Disk(); d != nil && d.CID != in.Disk {
		return fmt.Errorf("disk %s is recorded as the current one already", d.CID)
	}
	d := find(s.Disks, func(d *Disk) bool { return d.CID == in.Disk })
	if d == nil {
		if _, ok := s.Adopt(in.Disk); !ok {
			s.Disks = append(s.Disks, Disk{ID: uuid.NewString(), CID: in.Disk, CloudProperties: map[string]any{}})
		}
		d = &s.Disks[len(s.Disks)-1]
	}
	if in.DiskSize != 0 {
		d.Size = in.DiskSize
	}
	s.CurrentDiskID = d.ID
	return nil
}

func (s *State) importStemcell(in Import) error {
	made := in.Stemcell
	switch {
	case made.CID == "" && (made.Name != "" || made.Version != ""):
		return errors.New("the name or version of a stemcell is given, but not its CID")
	case made.CID == "":
		return nil
	}
	if made.Name == "" {
		made.Name = UnknownStemcell
	}
	if err := s.settleStemcell(Intent{Stemcell: &made}, made.CID); err != nil {
		return err
	}
	if s.CurrentVMCID != "" {
		if r := s.Stemcell(); r != nil && r.CID != made.CID {
			return fmt.Errorf("stemcell %s is recorded as the current one already", r.CID)
		}
		s.CurrentStemcellID = find(s.Stemcells, func(r *Stemcell) bool { return r.CID == made.CID }).ID
	}
	return nil
}

// Replace replaces the state with other, if the state records nothing yet. It keeps the
// serial number of the state, and its ids if other lacks them.
func (s *State) Replace(other State) error {
	if owned := s.Owned(); len(owned) > 0 {
		return fmt.Errorf("the deployment state records %s already", strings.Join(owned, ", "))
	}
	if other.DirectorID == "" {
		other.DirectorID = s.DirectorID
	}
	if other.InstallationID == "" {
		other.InstallationID = s.InstallationID
	}
	other.Own.Serial = max(other.Own.Serial, s.Own.Serial)
	*s = other
	return nil
}

// Unsettled returns the intents and leftovers whose id begins with id.
func (s *State) Unsettled(id string) []Leftover {
	var list []Leftover
	for _, in := range s.Own.Intents {
		if strings.HasPrefix(in.ID, id) {
			list = append(list, Leftover{Intent: in, Why: "a run is making this call, or was interrupted during it; the next run finds out its result"})
		}
	}
	for _, l := range s.Own.Leftovers {
		if strings.HasPrefix(l.ID, id) {
			list = append(list, l)
		}
	}
	return list
}

func (s *State) oneUnsettled(id string) (Leftover, error) {
	switch list := s.Unsettled(id); {
	case id == "" || len(list) == 0:
		return Leftover{}, fmt.Errorf("there is no leftover with the id %q", id)
	case len(list) > 1:
		return Leftover{}, fmt.Errorf("there are %d leftovers whose ids begin with %q", len(list), id)
	default:
		return list[0], nil
	}
}

// ForgetLeftover removes the only intent or leftover whose id begins with id, and returns
// it.
func (s *State) ForgetLeftover(id string) (Leftover, error) {
	l, err := s.oneUnsettled(id)
	if err != nil {
		return l, err
	}
	s.Own.Intents = slices.DeleteFunc(s.Own.Intents, func(in Intent) bool { return in.ID == l.ID })
	s.Own.Leftovers = slices.DeleteFunc(s.Own.Leftovers, func(o Leftover) bool { return o.ID == l.ID })
	return l, nil
}

// AdoptLeftover records the object of the call whose id begins with id. cid is the CID;
// empty if the leftover has it. A VM becomes the current one. A disk becomes an orphan,
// because it may contain data, and unused disks are deleted.
func (s *State) AdoptLeftover(id, cid string, now time.Time) (Leftover, error) {
	l, err := s.ForgetLeftover(id)
	if err != nil {
		return l, err
	}
	call := l.Call()
	switch {
	case call.Effect == Deletes:
		return l, fmt.Errorf("%s creates nothing to adopt; use --forget when %s does not exist any more", l.Method, l.CID)
	case call.Effect == Changes && !call.data:
		return l, fmt.Errorf("%s creates nothing to adopt; disk %s is recorded", l.Method, l.Disk)
	}
	if cid == "" {
		cid = l.CID
	}
	l.CID = cid
	switch {
	case cid == "":
		return l, fmt.Errorf("the CID that %s returned is unknown: look for the object in the cloud, and use --adopt ID CID", l.Method)
	case s.Owns(cid):
		return l, fmt.Errorf("%s is recorded already", cid)
	case call.data:
		d := Disk{CID: cid, Size: l.Size, CloudProperties: l.CloudProperties}
		s.Orphan(d, "adopted: a leftover of "+l.Method, now)
		return l, nil
	}
	l.Intent.Replaces = false // the VM that it should replace may not exist any more
	return l, s.Settle(l.Intent, cid)
}
