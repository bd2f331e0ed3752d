package state

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// sound is a valid state with all kinds of records.
func sound() State {
	return State{
		DirectorID: "d", InstallationID: "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10",
		CurrentVMCID: "vm-1", CurrentStemcellID: "s", CurrentDiskID: "d", CurrentReleaseIDs: []string{"r"},
		Disks:     []Disk{{ID: "d", CID: "disk-1", Size: 1024}},
		Stemcells: []Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}},
		Releases:  []Release{{ID: "r", Name: "web", Version: "1"}},
		Own: Own{
			Swap:      &OldVM{CID: "vm-0", StemcellID: "s"},
			Orphans:   []Orphan{{CID: "disk-0", Size: 512}},
			Intents:   []Intent{{ID: "i", Method: "create_vm"}},
			Leftovers: []Leftover{{Intent: Intent{ID: "l", Method: "delete_vm", CID: "vm-x"}}},
		},
	}
}

func TestCheck(t *testing.T) {
	if st := sound(); st.Check() != nil {
		t.Fatal(st.Check())
	}
	for want, change := range map[string]func(*State){
		"installation_id is empty":                     func(s *State) { s.InstallationID = "" },
		`"x/.." is not a UUID`:                         func(s *State) { s.InstallationID = "x/.." },
		"current_vm_cid is blank":                      func(s *State) { s.CurrentVMCID = " " },
		"disks[0] has no cid":                          func(s *State) { s.Disks[0].CID = "\t" },
		"disks[1] has the id d":                        func(s *State) { s.Disks = append(s.Disks, Disk{ID: "d", CID: "x"}) },
		"disks[1] has the cid disk-1":                  func(s *State) { s.Disks = append(s.Disks, Disk{ID: "x", CID: "disk-1"}) },
		"disks[0] has the size -1":                     func(s *State) { s.Disks[0].Size = -1 },
		"orphans[0] has no cid":                        func(s *State) { s.Own.Orphans[0].CID = "" },
		"orphans[0] has the cid disk-1":                func(s *State) { s.Own.Orphans[0].CID = "disk-1" },
		"stemcells[1] has the cid sc-1":                func(s *State) { s.Stemcells = append(s.Stemcells, Stemcell{ID: "x", CID: "sc-1"}) },
		"stemcells[0] has no id":                       func(s *State) { s.Stemcells[0].ID = ""; s.CurrentStemcellID = "" },
		"releases[0] has no name":                      func(s *State) { s.Releases[0].Name = "" },
		"current_disk_id gone is not in disks":         func(s *State) { s.CurrentDiskID = "gone" },
		"current_stemcell_id gone is not in stemcells": func(s *State) { s.CurrentStemcellID = "gone" },
		"current_release_ids[0] r is not in releases":  func(s *State) { s.Releases = nil },
		"swap has no cid":                              func(s *State) { s.Own.Swap.CID = "" },
		"swap is VM vm-1, which is the current one":    func(s *State) { s.Own.Swap.CID = "vm-1" },
		"intents[0] has no id":                         func(s *State) { s.Own.Intents[0].ID = "" },
		"intents[0] has no method":                     func(s *State) { s.Own.Intents[0].Method = "" },
		"intents[0] has no stemcell":                   func(s *State) { s.Own.Intents[0].Method = "create_stemcell" },
		"intents[1] has the id i":                      func(s *State) { s.Own.Intents = append(s.Own.Intents, s.Own.Intents[0]) },
		"leftovers[0] has no disk":                     func(s *State) { s.Own.Leftovers[0].Method = "update_disk" },
		`addresses[0] has the address "x"`:             func(s *State) { s.Own.Addresses = []Address{{Network: "a", Address: "x"}} },
		"addresses[1] has the address 10.0.0.2 of network a, which another record has too": func(s *State) {
			s.Own.Addresses = []Address{{Network: "a", Address: "10.0.0.2"}, {Network: "a", Address: "10.0.0.2", Released: true}, {Network: "b", Address: "10.0.0.2"}}
		},
		"snapshots[0] has no cid": func(s *State) { s.Own.Snapshots = []Snapshot{{Disk: "disk-1"}} },
		"leftovers[0] has no cid": func(s *State) { s.Own.Leftovers[0].CID = "" },
	} {
		st := sound()
		change(&st)
		if err := st.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}

func TestRepair(t *testing.T) {
	st := sound()
	st.CurrentDiskID, st.CurrentReleaseIDs, st.Own.Swap.StemcellID = "gone", []string{"gone"}, "gone"
	// Repair keeps the record of the current stemcell.
	st.Stemcells = []Stemcell{{ID: "a", CID: "sc-1"}, {ID: "s", CID: "sc-1"}, {ID: "b", CID: "sc-2"}, {ID: "c", CID: "sc-2"}}
	st.Repair()
	if err := st.Check(); err != nil {
		t.Error(err)
	}
	if st.CurrentDiskID != "" || st.CurrentReleaseIDs != nil || st.Own.Swap.StemcellID != "" {
		t.Errorf("pointers %+v", st)
	}
	if len(st.Stemcells) != 2 || st.Stemcells[0].ID != "s" || st.Stemcells[1].ID != "b" {
		t.Errorf("stemcells %+v", st.Stemcells)
	}
}

func TestOrphanAndAdopt(t *testing.T) {
	st := sound()
	st.Disks[0].CloudProperties = map[string]any{"type": "ssd"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	st.Orphan(*st.Disk(), "gone from the manifest", now)
	if st.CurrentDiskID != "" || len(st.Disks) != 0 || len(st.Own.Orphans) != 2 {
		t.Fatalf("after Orphan: %+v", st)
	}
	o := st.Own.Orphans[1]
	if o.CID != "disk-1" || o.Size != 1024 || o.Why != "gone from the manifest" || !o.Since.Equal(now.Truncate(time.Second)) || o.CloudProperties["type"] != "ssd" {
		t.Errorf("orphan %+v", o)
	}
	if !st.Owns("disk-1") {
		t.Error("an orphan is not owned")
	}
	d, ok := st.Adopt("disk-1")
	if !ok || d.CID != "disk-1" || d.ID == "" || d.Size != 1024 || d.CloudProperties["type"] != "ssd" || st.CurrentDiskID != "" || len(st.Own.Orphans) != 1 {
		t.Errorf("adopted %+v, %v; state %+v", d, ok, st)
	}
	if _, ok := st.Adopt("disk-1"); ok {
		t.Error("adopted twice")
	}
	if err := st.Check(); err != nil {
		t.Error(err)
	}
}

func TestOwns(t *testing.T) {
	st := sound()
	for cid, want := range map[string]bool{"vm-1": true, "vm-0": true, "disk-1": true, "disk-0": true, "sc-1": true, "vm-x": false, "": false} {
		if st.Owns(cid) != want {
			t.Errorf("Owns(%q) = %v", cid, !want)
		}
	}
}

func TestSettle(t *testing.T) {
	st := sound()
	st.Own.Swap = nil
	stemcell := Intent{ID: "1", Method: "create_stemcell", Stemcell: &Stemcell{Name: "os", Version: "2"}}
	// A light stemcell of another version replaces the one with the same CID.
	if err := st.Settle(stemcell, "sc-1"); err != nil || len(st.Stemcells) != 1 || st.Stemcell().Version != "2" {
		t.Errorf("%v, %+v", err, st.Stemcells)
	}
	// A stemcell that is uploaded again keeps its id, to which the VM points.
	again := Intent{ID: "2", Method: "create_stemcell", Stemcell: &Stemcell{ID: st.CurrentStemcellID, Name: "os", Version: "2"}}
	if err := st.Settle(again, "sc-2"); err != nil || len(st.Stemcells) != 1 || st.Stemcell() == nil || st.Stemcell().CID != "sc-2" {
		t.Errorf("%v, %+v", err, st.Stemcells)
	}
	for _, bad := range []struct {
		in   Intent
		cid  string
		want string
	}{
		{Intent{Method: "create_disk"}, "disk-0", "recorded already"},
		{Intent{Method: "create_vm"}, "vm-2", "while VM vm-1 is recorded"},
		{Intent{Method: "create_vm", Replaces: true}, "vm-1", "recorded already"},
		{Intent{Method: "create_stemcell"}, "sc-2", "its name and version are unknown"},
		{Intent{Method: "delete_vm"}, "vm-1", "cannot record what"},
		{Intent{Method: "update_disk", Disk: "disk-9"}, "disk-2", "which is not recorded"},
		{Intent{Method: "update_disk", Disk: "disk-1"}, "disk-0", "recorded already"},
	} {
		if err := st.Settle(bad.in, bad.cid); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s of %s: error %v; want %q", bad.in.Method, bad.cid, err, bad.want)
		}
	}
	change := Intent{Method: "update_disk", Disk: "disk-1", Size: 2048}
	if err := st.Settle(change, "disk-1b"); err != nil || st.Disk().CID != "disk-1b" || st.Disk().Size != 2048 || st.Disk().CloudProperties == nil {
		t.Errorf("%v, %+v", err, st.Disks)
	}
	for range 2 {
		if err := st.Settle(Intent{Method: "snapshot_disk", Disk: "disk-1b"}, "snap-1"); err != nil || len(st.Own.Snapshots) != 1 {
			t.Errorf("%v, %+v", err, st.Own.Snapshots)
		}
	}
	// The intent is removed, the VM replaced; a missing stemcell is no error.
	in := Intent{ID: "i", Method: "create_vm", AgentID: "a", StemcellID: "gone", Replaces: true}
	if err := st.Settle(in, "vm-2"); err != nil {
		t.Fatal(err)
	}
	if st.CurrentVMCID != "vm-2" || st.Own.Swap == nil || st.Own.Swap.CID != "vm-1" || len(st.Own.Intents) != 0 || st.CurrentStemcellID != "" || st.Own.AgentID != "a" {
		t.Errorf("state %+v", st)
	}
	if err := st.Check(); err != nil {
		t.Error(err)
	}
}

// If there are too many leftovers, the oldest are removed.
func TestLeftoversAreLimited(t *testing.T) {
	t.Parallel()
	var st State
	for i := range 60 {
		in := Intent{ID: fmt.Sprint(i), Method: "create_disk"}
		st.Own.Intents = append(st.Own.Intents, in)
		if err := st.LeaveBehind(in, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(st.Own.Leftovers); n != 50 || st.Own.Leftovers[0].ID != "10" || len(st.Own.Intents) > 0 {
		t.Errorf("%d leftovers, first %s", n, st.Own.Leftovers[0].ID)
	}
}

// A leftover replaces one with the same method and CID.
func TestLeftoversAreAboutOneThingEach(t *testing.T) {
	t.Parallel()
	var st State
	for _, in := range []Intent{
		{ID: "1", Method: "delete_vm", CID: "vm-9"}, {ID: "2", Method: "delete_vm", CID: "vm-9"},
		{ID: "3", Method: "create_disk"}, {ID: "4", Method: "create_disk"},
	} {
		if err := st.LeaveBehind(in, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(st.Own.Leftovers); n != 3 || st.Own.Leftovers[0].ID != "2" {
		t.Errorf("leftovers %v", st.Own.Leftovers)
	}
}
