package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/state"
)

// unwritable replaces the folder of the state by a file, so that not even root can
// write there, and returns a function that restores the folder.
func unwritable(t *testing.T, dir string) (restore func()) {
	t.Helper()
	if err := os.Rename(dir, dir+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+".aside", dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRescue(t *testing.T) {
	base := t.TempDir()
	dir, home := filepath.Join(base, "dir"), filepath.Join(base, "home")
	path := filepath.Join(dir, "state.json")
	f := with(t, path, home)
	reply := filepath.Join(home, f.Get().InstallationID, "replies", "vm.json")
	vm := state.Intent{ID: "vm", Method: "create_vm", AgentID: "agent", Reply: reply}
	disk := state.Intent{ID: "disk", Method: "create_disk", Size: 1024}
	update(t, f, func(s *state.State) { s.Own.Intents = []state.Intent{vm, disk} })
	if err := os.MkdirAll(filepath.Dir(reply), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(reply, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	f.opts.Warn = nil // backups fail, too
	restore := unwritable(t, dir)
	err = f.Update(func(s *state.State) error { return s.Settle(vm, "vm-1") })
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "as it was before") {
		t.Fatalf("error %v", err)
	}
	inHome := filepath.Join(home, f.Get().InstallationID, "rescue.json")
	file, err := f.Rescue(vm, "vm-1")
	if err != nil || file != inHome {
		t.Fatalf("rescued in %s, %v", file, err)
	}
	restore()
	if file, err = f.Rescue(disk, "disk-1"); err != nil || file != path+".rescue.json" {
		t.Fatalf("rescued in %s, %v", file, err)
	}
	for _, file := range []string{inHome, path + ".rescue.json"} {
		if m := mode(t, file); m != 0o600 {
			t.Errorf("%s has mode %v", file, m)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %s, %v", after, err)
	}
	f.Close()

	// Read returns the rescued CID and changes nothing.
	if st, _, err := Read(path, home); err != nil || st.CurrentVMCID != "vm-1" || len(st.Disks) != 1 {
		t.Errorf("read %+v, %v", st, err)
	}
	f = with(t, path, home)
	if notes := strings.Join(f.Notes(), "\n"); len(f.Notes()) != 2 || !strings.Contains(notes, "create_vm made vm-1") || !strings.Contains(notes, "create_disk made disk-1") {
		t.Errorf("notes %s", notes)
	}
	f.Close()
	f = with(t, path, home)
	st := f.Get()
	if st.CurrentVMCID != "vm-1" || st.Own.AgentID != "agent" || len(st.Disks) != 1 || st.Disks[0].CID != "disk-1" || len(st.Own.Intents) != 0 || len(f.Notes()) != 0 {
		t.Errorf("state %+v, notes %v", st, f.Notes())
	}
	for _, gone := range []string{inHome, path + ".rescue.json", reply} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
}

// A rescued VM that contradicts the state becomes a leftover.
func TestRescueOfWhatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := with(t, path, "")
	update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	if _, err := f.Rescue(state.Intent{ID: "x", Method: "create_vm"}, "vm-2"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f = with(t, path, "")
	st := f.Get()
	if st.CurrentVMCID != "vm-1" || len(st.Own.Leftovers) != 1 || st.Own.Leftovers[0].CID != "vm-2" || len(f.Notes()) != 1 {
		t.Errorf("state %+v, notes %v", st, f.Notes())
	}
}

// A disk that the CPI resized keeps its CID.
func TestRescueOfAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := with(t, path, "")
	in := state.Intent{ID: "x", Method: "resize_disk", Disk: "disk-1", Size: 2048}
	update(t, f, func(s *state.State) {
		s.Disks, s.CurrentDiskID = []state.Disk{{ID: "d", CID: "disk-1", Size: 1024}}, "d"
		s.Own.Intents = []state.Intent{in}
	})
	if _, err := f.Rescue(in, "disk-1"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if st := with(t, path, "").Get(); st.Disk().Size != 2048 || len(st.Own.Intents)+len(st.Own.Leftovers) != 0 {
		t.Errorf("state %+v", st)
	}
}

// A rescued CID is recorded even if the state file was lost.
func TestRescueWithoutState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := with(t, path, "")
	in := state.Intent{ID: "x", Method: "create_vm"}
	update(t, f, func(s *state.State) { s.Own.Intents = []state.Intent{in} })
	id := f.Get().InstallationID
	if _, err := f.Rescue(in, "vm-1"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if st := with(t, path, "").Get(); st.CurrentVMCID != "vm-1" || st.InstallationID != id {
		t.Errorf("state %+v", st)
	}
}

func TestRescueOfAnotherStateIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	update(t, open(t, path), func(*state.State) {})
	for name, content := range map[string]string{
		"of another": `{"installation_id": "x", "made": [{"intent": {"id": "i", "method": "create_vm"}, "cid": "vm-1"}]}`,
		"damaged":    `{"made": [`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path+".rescue.json", []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := load(path, Options{})
			if err != nil || len(l.warnings) != 1 || l.current.CurrentVMCID != "" {
				t.Errorf("%v, %v, %+v", err, l.warnings, l.current)
			}
			if data, _ := os.ReadFile(path + ".rescue.json"); string(data) != content {
				t.Errorf("the file changed: %s", data)
			}
		})
	}
}
