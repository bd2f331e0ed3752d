package state

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// named returns a state with the disks data and logs, attached to its VM.
func named(t *testing.T) State {
	t.Helper()
	var s State
	s.Identify()
	s.CurrentVMCID = "vm-1"
	for _, name := range []string{"data", "logs"} {
		s.AddDisk("disk-"+name, 64, nil)
		s.SetNamed(name, s.Disks[len(s.Disks)-1].ID, "vm-1")
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNamedDisks(t *testing.T) {
	t.Parallel()
	s := named(t)
	if d := s.Named("logs"); d == nil || d.CID != "disk-logs" || s.NameOf("disk-logs") != "logs" || !s.Uses(*d) || !s.Attached("logs") {
		t.Errorf("logs is %+v, of %+v", d, s.Own.NamedDisks)
	}
	if s.Named("other") != nil || s.NameOf("disk-other") != "" || s.Attached("other") || s.Disk() != nil || len(s.UsedDisks()) != 2 {
		t.Errorf("%+v", s.Own.NamedDisks)
	}
	s.CurrentVMCID = ""
	if s.Attached("logs") {
		t.Error("logs is attached without a VM")
	}
}

// An orphan keeps its name, and the VM that still has it.
func TestNamedOrphan(t *testing.T) {
	t.Parallel()
	s := named(t)
	s.Orphan(*s.Named("logs"), "why", time.Now())
	o := s.Own.Orphans[0]
	if o.Name != "logs" || o.VM != "vm-1" || s.Named("logs") != nil || s.NameOf("disk-logs") != "logs" || len(s.Disks) != 1 {
		t.Errorf("orphan %+v, names %+v", o, s.Own.NamedDisks)
	}
	d, ok := s.Adopt("disk-logs")
	if !ok || s.Uses(d) || s.NameOf("disk-logs") != "" {
		t.Errorf("adopted %+v", d)
	}
	s.Forget("delete_disk", "disk-data")
	if len(s.Own.NamedDisks) > 0 || s.Own.GoneDiskVM != "vm-1" {
		t.Errorf("a deleted disk has a name, or its VM is not known: %+v", s.Own)
	}
	if s.Forget("delete_vm", "vm-1"); s.Own.GoneDiskVM != "" {
		t.Error("a deleted VM still has a disk that does not exist")
	}
	if data, err := json.Marshal(s.Own); err != nil || strings.Contains(string(data), "named_disks") {
		t.Errorf("%s, %v", data, err)
	}
}

// Another tool that has removed the own part and deleted a disk takes only that name.
func TestNamedDisksRestored(t *testing.T) {
	t.Parallel()
	s := named(t)
	own := s.Own
	s.Own, s.CurrentVMCID = Own{}, "vm-2"
	s.Disks = s.Disks[:1]
	if same, err := s.RestoreOwn(own, CIDs{VM: "vm-1"}); same || err != nil {
		t.Fatal(same, err)
	}
	if s.Named("data") == nil || s.Attached("data") || len(s.Own.NamedDisks) != 1 {
		t.Errorf("%+v", s.Own.NamedDisks)
	}
}

func TestCheckRefusesNamedDisks(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*State){
		"has no name":            func(s *State) { s.Own.NamedDisks[0].Name = " " },
		"has the name data":      func(s *State) { s.Own.NamedDisks[1].Name = "data" },
		"which is not in disks":  func(s *State) { s.Own.NamedDisks[1].ID = "x" },
		"another record has too": func(s *State) { s.Own.NamedDisks[1].ID = s.Own.NamedDisks[0].ID },
		"that of the current":    func(s *State) { s.CurrentDiskID = s.Own.NamedDisks[0].ID },
	} {
		s := named(t)
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// An earlier state is believed only as far as the later one has the same disks attached.
func TestDoubtNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(later *State)
		want   string
	}{
		"the same":          {func(*State) {}, "data logs"},
		"another disk":      {func(st *State) { st.AddDisk("disk-2", 64, nil); st.SetNamed("logs", st.Disks[2].ID, "vm-1") }, "data"},
		"a detached disk":   {func(st *State) { st.SetNamed("data", st.Disks[0].ID, "") }, "logs"},
		"an orphan":         {func(st *State) { st.Orphan(*st.Named("data"), "why", time.Now()) }, "logs"},
		"another VM":        {func(st *State) { st.CurrentVMCID = "vm-2" }, ""},
		"an unreadable one": {func(st *State) { *st = State{} }, ""},
	} {
		s, later := named(t), named(t)
		c.change(&later)
		s.DoubtNamed(later)
		var got []string
		for _, n := range s.Own.NamedDisks {
			if s.Attached(n.Name) {
				got = append(got, n.Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: attached are %q, want %q", name, got, c.want)
		}
	}
}
