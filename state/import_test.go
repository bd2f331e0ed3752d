package state

import (
	"strings"
	"testing"
	"time"
)

func TestImport(t *testing.T) {
	st := State{DirectorID: "d", InstallationID: "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10"}
	in := Import{VM: "vm-1", AgentID: "a", Disk: "disk-1", DiskSize: 1024, Stemcell: Stemcell{CID: "sc-1", Name: "os", Version: "1"}}
	if err := st.Import(in); err != nil {
		t.Fatal(err)
	}
	if st.CurrentVMCID != "vm-1" || !st.Own.Reached || st.Disk().CID != "disk-1" || st.Disk().Size != 1024 || st.Stemcell().Version != "1" || st.Check() != nil {
		t.Errorf("imported %+v, %v", st, st.Check())
	}
	for _, bad := range []struct {
		in   Import
		want string
	}{
		{Import{VM: "vm-2"}, "VM vm-1 is recorded"},
		{Import{Disk: "disk-2"}, "disk disk-1 is recorded"},
		{Import{Stemcell: Stemcell{CID: "sc-2"}}, "stemcell sc-1 is recorded"},
		{Import{AgentID: "x"}, "no VM"},
		{Import{DiskSize: 1}, "no disk"},
		{Import{Disk: "disk-1", DiskSize: -1}, "size -1"},
		{Import{Stemcell: Stemcell{Name: "x"}}, "but not its CID"},
	} {
		copied, err := st.clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := copied.Import(bad.in); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: error %v; want %q", bad.in, err, bad.want)
		}
	}
	// An imported orphan keeps its size.
	st.Orphan(*st.Disk(), "test", time.Now())
	if err := st.Import(Import{Disk: "disk-1"}); err != nil || st.Disk() == nil || st.Disk().Size != 1024 || len(st.Own.Orphans) != 0 {
		t.Errorf("adopted %+v, %v", st, err)
	}
}

func TestDecodeAnyAndReplace(t *testing.T) {
	for name, vm := range map[string]string{"create-env.json": "vm-1", "bosh-init.json": "i-0a1b2c3d", "bosh-deployments.yml": "i-0a1b2c3d", "format-1.json": "vm-2"} {
		other, err := DecodeAny(fixture(t, name))
		if err != nil || other.CurrentVMCID != vm {
			t.Errorf("%s: %q, %v", name, other.CurrentVMCID, err)
		}
		var st State
		st.Identify()
		st, err = st.Change(func(s *State) error { return s.Replace(other) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := st.Replace(other); err == nil || !strings.Contains(err.Error(), "records VM "+vm) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	if _, err := DecodeAny([]byte("name: bosh\n")); err == nil || !strings.Contains(err.Error(), "records nothing") {
		t.Errorf("a manifest: %v", err)
	}
}

func TestLeftovers(t *testing.T) {
	fresh := func() State {
		st := sound()
		st.CurrentVMCID, st.Own.Swap = "", nil
		st.Own.Intents = []Intent{{ID: "vm-id", Method: "create_vm", AgentID: "a", StemcellID: "s", Replaces: true}}
		st.Own.Leftovers = []Leftover{
			{Intent: Intent{ID: "disk-id", Method: "create_disk", Size: 512}},
			{Intent: Intent{ID: "gone-id", Method: "delete_vm", CID: "vm-9"}},
			{Intent: Intent{ID: "known-id", Method: "create_disk", CID: "disk-7", Size: 256}},
			{Intent: Intent{ID: "changed-id", Method: "update_disk", Disk: "disk-1", Size: 256}},
			{Intent: Intent{ID: "copied-id", Method: "snapshot_disk", Disk: "disk-1"}},
		}
		return st
	}
	now := time.Now()
	st := fresh()
	if _, err := st.AdoptLeftover("vm", "vm-5", now); err != nil || st.CurrentVMCID != "vm-5" || len(st.Own.Intents) != 0 {
		t.Errorf("VM: %+v, %v", st, err)
	}
	if _, err := st.AdoptLeftover("disk-id", "disk-5", now); err != nil || st.Own.Orphans[1].CID != "disk-5" || st.Own.Orphans[1].Size != 512 || st.CurrentDiskID != "d" {
		t.Errorf("disk: %+v, %v", st.Own, err)
	}
	if l, err := st.AdoptLeftover("known", "", now); err != nil || l.CID != "disk-7" || !st.Owns("disk-7") {
		t.Errorf("known CID: %+v, %v", l, err)
	}
	if _, err := st.AdoptLeftover("changed", "disk-8", now); err != nil || st.Own.Orphans[3].CID != "disk-8" || st.CurrentDiskID != "d" {
		t.Errorf("a changed disk: %+v, %v", st.Own, err)
	}
	if _, err := st.AdoptLeftover("copied", "snap-1", now); err != nil || st.Own.Snapshots[0].CID != "snap-1" {
		t.Errorf("snapshot: %+v, %v", st.Own, err)
	}
	if l, err := st.ForgetLeftover("gone-id"); err != nil || l.CID != "vm-9" || len(st.Own.Leftovers) != 0 {
		t.Errorf("forgotten %+v, %v", l, err)
	}
	if err := st.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []struct{ id, cid, want string }{
		{"", "x", "no leftover"},
		{"nobody", "x", "no leftover"},
		{"disk-id", "", "use --adopt ID CID"},
		{"disk-id", "disk-1", "recorded already"},
		{"gone-id", "", "creates nothing"},
	} {
		st := fresh()
		if _, err := st.AdoptLeftover(bad.id, bad.cid, now); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
	st = fresh()
	st.Own.Leftovers[1].ID = "disk-too"
	if _, err := st.ForgetLeftover("disk"); err == nil || !strings.Contains(err.Error(), "2 leftovers") {
		t.Errorf("error %v", err)
	}
}
