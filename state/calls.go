package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Effect is what a CPI call does to the cloud.
type Effect string

// The effects. A call that changes a disk may return another CID for it.
const (
	Creates Effect = "creates"
	Changes Effect = "changes"
	Deletes Effect = "deletes"
)

// Call describes a method of the CPI that creates, changes or deletes an object. The call
// is announced in the state before it is made, so that the next run can find out its
// result after a kill.
type Call struct {
	Method string
	Effect Effect
	// Thing is the kind of the object: "VM", "disk", "stemcell", "snapshot".
	Thing string
	// Asks is the method that reports whether the object exists; empty: there is none.
	Asks string

	needs  string // the field of the intent without which the result cannot be recorded
	has    func(Intent) bool
	record func(s *State, in Intent, cid string) error // records the created or changed object
	forget func(s *State, cid string)                  // removes the records of the deleted object
	// sought says what a person can look for in the cloud.
	sought func(Intent) string
	// data is true if the created object may contain data: an adopted leftover then
	// becomes an orphan, because unused disks are deleted.
	data bool
}

// Calls returns the table of all calls that are announced, one row per method.
func Calls() []Call {
	return []Call{
		{Method: "create_vm", Effect: Creates, Thing: "VM", Asks: "has_vm", record: (*State).settleVM,
			sought: func(in Intent) string { return "a VM whose agent has the id " + in.AgentID }},
		{Method: "create_disk", Effect: Creates, Thing: "disk", Asks: "has_disk", record: (*State).settleDisk, data: true,
			sought: func(in Intent) string { return fmt.Sprintf("a disk of %d MiB without tags that nothing uses", in.Size) }},
		{Method: "create_stemcell", Effect: Creates, Thing: "stemcell", record: (*State).settleStemcell,
			needs: "stemcell", has: func(in Intent) bool { return in.Stemcell != nil }, sought: soughtStemcell},
		{Method: "snapshot_disk", Effect: Creates, Thing: "snapshot", record: (*State).settleSnapshot,
			needs: "disk", has: hasDisk, sought: func(in Intent) string { return "a snapshot of disk " + in.Disk }},
		{Method: "resize_disk", Effect: Changes, Thing: "disk", record: (*State).settleChange, needs: "disk", has: hasDisk},
		{Method: "update_disk", Effect: Changes, Thing: "disk", Asks: "has_disk", record: (*State).settleChange, needs: "disk", has: hasDisk, data: true,
			sought: func(in Intent) string {
				return fmt.Sprintf("a disk of %d MiB that was made from disk %s", in.Size, in.Disk)
			}},
		{Method: "delete_vm", Effect: Deletes, Thing: "VM", Asks: "has_vm", needs: "cid", has: hasCID, forget: (*State).forgetVM},
		{Method: "delete_disk", Effect: Deletes, Thing: "disk", Asks: "has_disk", needs: "cid", has: hasCID, forget: (*State).forgetDisk},
		{Method: "delete_stemcell", Effect: Deletes, Thing: "stemcell", needs: "cid", has: hasCID, forget: (*State).forgetStemcell},
		{Method: "delete_snapshot", Effect: Deletes, Thing: "snapshot", needs: "cid", has: hasCID, forget: (*State).forgetSnapshot},
	}
}

func hasDisk(in Intent) bool { return strings.TrimSpace(in.Disk) != "" }
func hasCID(in Intent) bool  { return strings.TrimSpace(in.CID) != "" }

func soughtStemcell(in Intent) string {
	if in.Stemcell == nil {
		return "a stemcell or image that nothing uses"
	}
	return fmt.Sprintf("a stemcell %s/%s that nothing uses", in.Stemcell.Name, in.Stemcell.Version)
}

// CallOf returns the row of a method. If a newer version announced a method that is not
// in the table, the row contains only the name and the effect that the name implies.
func CallOf(method string) Call {
	all := Calls()
	if i := slices.IndexFunc(all, func(c Call) bool { return c.Method == method }); i >= 0 {
		return all[i]
	}
	c := Call{Method: method, Effect: Creates}
	if strings.HasPrefix(method, "delete_") {
		c.Effect, c.needs, c.has = Deletes, "cid", hasCID
	}
	return c
}

// Call returns the row of the intent's method.
func (in Intent) Call() Call { return CallOf(in.Method) }

// Sought says what a person can look for in the cloud to find the object that the call
// created.
func (in Intent) Sought() string {
	switch c := in.Call(); {
	case in.CID != "":
		return in.CID
	case c.sought != nil:
		return c.sought(in)
	}
	return "what " + in.Method + " made"
}

// AddDisk records a disk that exists. It does not become the current one.
func (s *State) AddDisk(cid string, size int, props map[string]any) {
	s.Disks = append(s.Disks, Disk{ID: uuid.NewString(), CID: cid, Size: size, CloudProperties: nonNil(props)})
}

// settleDisk records a disk. It does not become the current one.
func (s *State) settleDisk(in Intent, cid string) error {
	if s.ownsDisk(cid) {
		return fmt.Errorf("disk %s was created and is recorded already: the CPI gave the same CID twice", cid)
	}
	s.AddDisk(cid, in.Size, in.CloudProperties)
	return nil
}

func (s *State) settleSnapshot(in Intent, cid string) error {
	if !slices.ContainsFunc(s.Own.Snapshots, func(o Snapshot) bool { return o.CID == cid }) {
		s.Own.Snapshots = append(s.Own.Snapshots, Snapshot{CID: cid, Disk: in.Disk, Taken: in.Started, Size: in.Size, CloudProperties: in.CloudProperties, Name: s.NameOf(in.Disk)})
	}
	return nil
}

func (s *State) forgetSnapshot(cid string) {
	s.Own.Snapshots = slices.DeleteFunc(s.Own.Snapshots, func(o Snapshot) bool { return o.CID == cid })
}

func (s *State) forgetVM(cid string) {
	if s.Own.GoneDiskVM == cid {
		s.Own.GoneDiskVM = ""
	}
	if s.CurrentVMCID == cid {
		s.CurrentVMCID = ""
		s.Own.AgentID, s.Own.Address, s.Own.Group, s.Own.Reached = "", "", "", false
		s.Own.Made, s.Own.Applied, s.Own.Created, s.Own.Tagged = nil, nil, nil, ""
	}
	if s.Own.Swap != nil && s.Own.Swap.CID == cid {
		s.Own.Swap = nil
	}
}

func (s *State) forgetDisk(cid string) {
	if s.Attached(s.NameOf(cid)) {
		s.Own.GoneDiskVM = s.CurrentVMCID
	}
	s.Disks = slices.DeleteFunc(s.Disks, func(d Disk) bool { return d.CID == cid })
	s.Own.Orphans = slices.DeleteFunc(s.Own.Orphans, func(o Orphan) bool { return o.CID == cid })
}

func (s *State) forgetStemcell(cid string) {
	s.Stemcells = slices.DeleteFunc(s.Stemcells, func(r Stemcell) bool { return r.CID == cid })
}
