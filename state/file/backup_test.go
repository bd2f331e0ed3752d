package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bootstrap/state"
	"bootstrap/state/versions"
)

// runs makes each change in a run of its own.
func runs(t *testing.T, path string, changes ...func(*state.State)) {
	t.Helper()
	for _, change := range changes {
		f := with(t, path, "")
		update(t, f, change)
		f.Close()
	}
}

// numbers lists the serial numbers of the backups, newest first.
func numbers(t *testing.T, path string) []int {
	t.Helper()
	list, err := Versions(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, v := range list {
		got = append(got, v.Serial)
		if v.Err != nil || v.State.Own.Serial != v.Serial {
			t.Errorf("backup %d: %+v, %v", v.Serial, v.State.Own, v.Err)
		}
		if m := mode(t, v.Path); m != 0o600 {
			t.Errorf("%s has mode %v", v.Path, m)
		}
	}
	return got
}

func TestBackups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	data, err := os.ReadFile("../../testdata/state/create-env.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f := with(t, path, "")
	// A run makes one backup of the file before it, however often it writes.
	for i := range 7 {
		update(t, f, func(s *state.State) { s.Own.Address = strconv.Itoa(i) })
	}
	if got := numbers(t, path); !slices.Equal(got, []int{0}) {
		t.Errorf("backups %v", got)
	}
	// The backup has the same bytes as the file of create-env.
	if kept, err := os.ReadFile(path + ".backups/0.json"); err != nil || string(kept) != string(data) {
		t.Errorf("backup of create-env's file: %s, %v", kept, err)
	}
	// When a run ends, it makes a backup of its last version, because the file may be
	// lost.
	f.Close()
	if got := numbers(t, path); !slices.Equal(got, []int{7, 0}) {
		t.Errorf("backups %v", got)
	}
	for i := range versions.Kept + 3 {
		runs(t, path, func(s *state.State) { s.Own.Address = strconv.Itoa(i) })
	}
	if got := numbers(t, path); len(got) != versions.Kept || got[0] != 30 || got[len(got)-1] != 11 {
		t.Errorf("backups %v", got)
	}
	if m := mode(t, path+".backups"); m != 0o700 {
		t.Errorf("the folder has mode %v", m)
	}
	f = with(t, path, "")
	update(t, f, func(s *state.State) {
		s.Forget("delete_vm", "vm-1")
		s.Forget("delete_disk", "disk-1")
		s.Forget("delete_stemcell", "sc-1")
	})
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A killed run makes no backup at its end, but the next run does.
func TestBackupOfAKilledRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	killed := with(t, path, "")
	update(t, killed, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	update(t, killed, func(s *state.State) { s.Own.Address = "x" })
	killed.lock.Close()
	killed.lock = nil
	runs(t, path, func(s *state.State) { s.Own.Address = "y" })
	if got := numbers(t, path); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("backups %v", got)
	}
}

// Resources that create-env has replaced in a state file count as deleted. Orphans do
// not, because create-env does not know them.
func TestBackupsOfWhatCreateEnvReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	runs(t, path, func(s *state.State) {
		s.CurrentVMCID, s.Stemcells = "vm-1", []state.Stemcell{{ID: "a", Name: "os", Version: "1", CID: "sc-1"}}
		s.Own.Orphans = []state.Orphan{{CID: "disk-1"}}
	})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		t.Fatal(err)
	}
	content["current_vm_cid"], content["stemcells"] = "vm-2", []any{}
	for key, value := range content {
		if own, ok := value.(map[string]any); ok && own["serial"] != nil {
			delete(content, key)
		}
	}
	if data, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var warned []string
	f, err := Open(t.Context(), path, Options{Warn: func(err error) { warned = append(warned, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	update(t, f, func(s *state.State) { s.Forget("delete_vm", "vm-2") })
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "disk disk-1 was never deleted") {
		t.Errorf("warned %q", warned)
	}
}

// A backup is kept while it is the only record of a resource that was not deleted.
func TestBackupsOfWhatWasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	runs(t, path,
		func(s *state.State) { s.CurrentVMCID = "vm-1"; s.Disks = []state.Disk{{ID: "a", CID: "disk-1"}} },
		func(s *state.State) { s.Forget("delete_vm", "vm-1"); s.CurrentVMCID = "vm-2" })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range versions.Kept + 5 { // from here on, versions of another deployment
		runs(t, path, func(s *state.State) { s.CurrentVMCID = "vm-3"; s.Own.Address = strconv.Itoa(i) })
	}
	list, err := Versions(path)
	if err != nil {
		t.Fatal(err)
	}
	last := list[len(list)-1]
	if got := numbers(t, path); len(got) != versions.Kept+1 || got[0] != 27 || got[versions.Kept] != 2 || !slices.Equal(last.Only, []string{"VM vm-2", "disk disk-1"}) {
		t.Errorf("backups %v, only in %d: %q", got, last.Serial, last.Only)
	}
	if !list[0].Present || list[1].Present || len(list[0].Only) > 0 {
		t.Errorf("the present version: %+v", list[0])
	}
	// It is kept when the later deployment is deleted.
	var warned []string
	f, err := Open(t.Context(), path, Options{Warn: func(err error) { warned = append(warned, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	update(t, f, func(s *state.State) { s.Forget("delete_vm", "vm-3") })
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := numbers(t, path); !slices.Equal(got, []int{2}) || len(warned) != 1 || !strings.Contains(warned[0], "VM vm-2 was never deleted") {
		t.Errorf("backups %v, warned %q", got, warned)
	}
	r := restored(t, path, 2, Options{})
	if st := r.Get(); st.CurrentVMCID != "vm-2" || st.Disks[0].CID != "disk-1" {
		t.Errorf("restored %+v", st)
	}
	r.Close()
}

// After any sequence of losses, deletions and writes, the state or a backup
// records every CID that was not deleted, and there are few backups.
func TestBackupsKeepEveryCID(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		alive := map[string]bool{}
		lost := 0
		for i := range rapid.IntRange(1, 10).Draw(rt, "runs") {
			f, err := Open(t.Context(), path, Options{})
			if err != nil {
				rt.Fatal(err)
			}
			for n := range rapid.IntRange(1, 2).Draw(rt, "writes") {
				old := f.Get().CurrentVMCID
				made := fmt.Sprintf("vm-%d-%d", i, n)
				err := f.Update(func(s *state.State) error {
					s.Forget("delete_vm", old)
					s.CurrentVMCID = made
					return nil
				})
				if err != nil {
					rt.Fatal(err)
				}
				delete(alive, old)
				alive[made] = true
			}
			if rapid.Bool().Draw(rt, "killed") {
				f.lock.Close()
				f.lock = nil
				continue
			}
			f.Close()
			if rapid.IntRange(0, 4).Draw(rt, "lost") == 0 {
				lost++
				if err := os.Remove(path); err != nil {
					rt.Fatal(err)
				}
			}
		}
		list, err := Versions(path)
		if err != nil {
			rt.Fatal(err)
		}
		now, _, err := Read(path, "")
		if err != nil {
			rt.Fatal(err)
		}
		delete(alive, now.CurrentVMCID)
		for _, v := range list {
			delete(alive, v.State.CurrentVMCID)
		}
		if len(alive) > 0 || len(list) > versions.Kept+lost {
			rt.Fatalf("no backup records %v; there are %d, the file was lost %d times", alive, len(list), lost)
		}
	})
}

// restored replaces the state at a path by an earlier version, and returns it open.
func restored(t *testing.T, path string, serial int, opts Options) *Store {
	t.Helper()
	list, err := Versions(path)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(v Version) bool { return v.Serial == serial })
	s, err := OpenToReplace(t.Context(), path, opts)
	if err == nil {
		err = s.Replace(t.Context(), list[i].State, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A named disk of an earlier version may have been detached since then.
func TestRestoreNamedDisks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	runs(t, path,
		func(s *state.State) {
			s.CurrentVMCID, s.Disks = "vm-1", []state.Disk{{ID: "d", CID: "disk-1"}, {ID: "e", CID: "disk-2"}}
			s.SetNamed("data", "d", "vm-1")
			s.SetNamed("logs", "e", "vm-1")
		},
		func(s *state.State) { s.Orphan(s.Disks[0], "not wanted", time.Time{}) })
	r := restored(t, path, 1, Options{})
	defer r.Close()
	if st := r.Get(); st.Named("data") == nil || st.Attached("data") || !st.Attached("logs") {
		t.Errorf("restored %+v", st.Own.NamedDisks)
	}
}

// After a kill during a removal, either the state file exists, so that the removal can be
// repeated, or everything is removed.
func TestKilledRemoval(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	for i := range 2 {
		f := with(t, path, home)
		update(t, f, func(s *state.State) { s.CurrentVMCID = fmt.Sprint("vm-", i) })
		f.Close()
	}
	killed := errors.New("killed")
	opts := Options{Home: home}
	f, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	update(t, f, func(s *state.State) { s.CurrentVMCID = "" })
	// The removal also removes files that writes of a killed run left behind.
	stale := filepath.Join(f.archive().Dir, ".gone.json123")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.opts.Trace = func(moment string) {
		if moment == "before" {
			panic(killed)
		}
	}
	func() {
		defer func() {
			if v := recover(); v != nil && v != killed {
				panic(v)
			}
		}()
		_ = f.Remove()
	}()
	if !fileExists(path) {
		t.Error("the state file was removed first")
	}
	f.lock.Close()
	f.installation.Close()
	f = with(t, path, home)
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	f.Close()
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "home" {
		t.Errorf("left: %v %v", list, err)
	}
}

// A later run knows which resources a killed run has removed from the state, and keeps no
// backup for them.
func TestKilledAfterDropping(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	f.Close()
	f = with(t, path, home)
	f.opts.Trace = func(moment string) {
		if moment == "after" {
			panic("killed")
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = f.Update(func(s *state.State) error { s.CurrentVMCID = ""; return nil })
	}()
	f.lock.Close()
	f.installation.Close()
	f = with(t, path, home)
	if vm := f.Get().CurrentVMCID; vm != "" {
		t.Fatalf("VM %s is recorded", vm)
	}
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	f.Close()
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "home" {
		t.Errorf("left: %v %v", list, err)
	}
}

// A new state continues the serial numbers of the backups.
func TestDiscardKeepsBackups(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	mirror := f.mirrorPath()
	f.Close()
	var owns *OwnsError
	if err := Discard(t.Context(), path, false, Options{Home: home}); !errors.As(err, &owns) || !strings.Contains(err.Error(), "VM vm-1") {
		t.Fatalf("error %v", err)
	}
	if err := Discard(t.Context(), path, true, Options{Home: home}); err != nil {
		t.Fatal(err)
	}
	var missing *MissingError
	if err := Discard(t.Context(), path, true, Options{Home: home}); !errors.As(err, &missing) {
		t.Errorf("error %v", err)
	}
	for _, gone := range []string{path, mirror} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	f = with(t, path, home)
	update(t, f, func(*state.State) {})
	if serial := f.Get().Own.Serial; serial != 2 {
		t.Errorf("serial number %d", serial)
	}
	f.Close()
	if err := os.WriteFile(path, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Discard(t.Context(), path, false, Options{}); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("error %v", err)
	}
	if err := Discard(t.Context(), path, true, Options{}); err != nil {
		t.Error(err)
	}
}

func TestMovedVersionsGoBesideTheFileOfALink(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "state.json"), filepath.Join(t.TempDir(), "link.json")
	runs(t, from, func(st *state.State) { st.CurrentVMCID = "vm-1" }, func(st *state.State) { st.CurrentVMCID = "vm-2" })
	before := numbers(t, from)
	if err := os.Symlink(filepath.Join(t.TempDir(), "real.json"), to); err != nil {
		t.Fatal(err)
	}
	if err := Move(t.Context(), from, to, to, Options{}, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := numbers(t, to); !slices.Equal(got, before) {
		t.Errorf("the versions in the new place are %v, want %v", got, before)
	}
}
