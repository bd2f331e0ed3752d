package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bootstrap/state"
)

// with opens the state with a home, and fails the test on warnings.
func with(t *testing.T, path, home string) *Store {
	t.Helper()
	f, err := Open(t.Context(), path, Options{Home: home, Warn: func(err error) { t.Errorf("warning: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func update(t *testing.T, f *Store, change func(*state.State)) {
	t.Helper()
	if err := f.Update(func(s *state.State) error { change(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

// asCreateEnv writes the file again as create-env would: without what it does
// not know.
func asCreateEnv(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	delete(all, "bootstrap")
	if change != nil {
		change(all)
	}
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// runs changes the state in runs of their own.
func runs(t *testing.T, path string, changes ...func(*state.State)) {
	t.Helper()
	for _, change := range changes {
		f := with(t, path, "")
		update(t, f, change)
		f.Close()
	}
}

// versions lists the serial numbers of the backups, newest first.
func versions(t *testing.T, path string) []int {
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
	// However often a run writes, there is one backup of the time before it.
	for i := range 7 {
		update(t, f, func(s *state.State) { s.Own.Address = strconv.Itoa(i) })
	}
	if got := versions(t, path); !slices.Equal(got, []int{0}) {
		t.Errorf("backups %v", got)
	}
	// What create-env wrote is kept as it was.
	if kept, err := os.ReadFile(path + ".backups/0.json"); err != nil || string(kept) != string(data) {
		t.Errorf("backup of create-env's file: %s, %v", kept, err)
	}
	// What a run has left is kept when it ends: the file may be lost.
	f.Close()
	if got := versions(t, path); !slices.Equal(got, []int{7, 0}) {
		t.Errorf("backups %v", got)
	}
	for i := range 7 {
		runs(t, path, func(s *state.State) { s.Own.Address = strconv.Itoa(i) })
	}
	if got := versions(t, path); !slices.Equal(got, []int{14, 13, 12, 11, 10, 9}) {
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

// A run that is killed closes nothing: the next one keeps what it left.
func TestBackupOfAKilledRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	killed := with(t, path, "")
	update(t, killed, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	update(t, killed, func(s *state.State) { s.Own.Address = "x" })
	killed.lock.Close()
	killed.lock = nil
	runs(t, path, func(s *state.State) { s.Own.Address = "y" })
	if got := versions(t, path); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("backups %v", got)
	}
}

// A backup is not dropped while it alone records what nobody has deleted.
func TestBackupsOfWhatWasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	runs(t, path,
		func(s *state.State) { s.CurrentVMCID = "vm-1"; s.Disks = []state.Disk{{ID: "a", CID: "disk-1"}} },
		func(s *state.State) { s.Forget("delete_vm", "vm-1"); s.CurrentVMCID = "vm-2" })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // of another deployment, from here on
		runs(t, path, func(s *state.State) { s.CurrentVMCID = "vm-3"; s.Own.Address = strconv.Itoa(i) })
	}
	list, err := Versions(path)
	if err != nil {
		t.Fatal(err)
	}
	last := list[len(list)-1]
	if got := versions(t, path); !slices.Equal(got, []int{22, 21, 20, 19, 18, 17, 2}) || !slices.Equal(last.Only, []string{"VM vm-2", "disk disk-1"}) {
		t.Errorf("backups %v, only in %d: %q", got, last.Serial, last.Only)
	}
	if !list[0].Present || list[1].Present || len(list[0].Only) > 0 {
		t.Errorf("the present version: %+v", list[0])
	}
	// It stays when the deployment that took its place is deleted.
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
	if got := versions(t, path); !slices.Equal(got, []int{2}) || len(warned) != 1 || !strings.Contains(warned[0], "VM vm-2 was never deleted") {
		t.Errorf("backups %v, warned %q", got, warned)
	}
	r, err := Restore(t.Context(), path, 2, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if st := r.Get(); st.CurrentVMCID != "vm-2" || st.Disks[0].CID != "disk-1" {
		t.Errorf("restored %+v", st)
	}
	r.Close()
}

// Whatever is lost, deleted and written in whatever order: what is recorded and
// was not deleted stands in the state or in a backup, and the backups are few.
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
		if len(alive) > 0 || len(list) > keptBackups+1+lost {
			rt.Fatalf("no backup records %v; there are %d, the file was lost %d times", alive, len(list), lost)
		}
	})
}

// An installation whose first state could not be written leaves nothing.
func TestFirstWriteFails(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(t.TempDir(), "in", "state.json")
	for _, fails := range []bool{true, false} {
		f, err := Open(t.Context(), path, Options{Home: home})
		if err != nil || !f.Fresh() {
			t.Fatalf("fresh %t, %v", err == nil, err)
		}
		if fails { // what is in the way of the rename is a folder
			if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		err = f.Update(func(*state.State) error { return nil })
		if (err == nil) == fails || f.Fresh() != fails {
			t.Errorf("error %v, fresh %t", err, f.Fresh())
		}
		f.Close()
		left, err := os.ReadDir(home)
		if err != nil || (len(left) == 0) != fails {
			t.Errorf("left %v, %v", left, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	runs(t, path,
		func(s *state.State) { s.CurrentVMCID = "vm-1" },
		func(s *state.State) { s.Own.Intents = []state.Intent{{ID: "i", Method: "create_disk"}} },
		func(s *state.State) { s.Own.Intents = nil; s.Disks = []state.Disk{{ID: "d", CID: "disk-1"}} })
	var owns *OwnsError
	if _, err := Restore(t.Context(), path, 2, false, Options{}); !errors.As(err, &owns) || !slices.Equal(owns.Owned, []string{"disk disk-1"}) {
		t.Fatalf("error %v", err)
	}
	if _, err := Restore(t.Context(), path, 9, false, Options{}); err == nil || !strings.Contains(err.Error(), "there are: 3, 2, 1") {
		t.Errorf("error %v", err)
	}
	r, err := Restore(t.Context(), path, 2, true, Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := r.Get()
	r.Close()
	if st.Own.Serial != 4 || len(st.Disks) != 0 || st.CurrentVMCID != "vm-1" || len(st.Own.Intents) != 1 || len(st.Own.Leftovers) != 0 || !slices.ContainsFunc(r.Notes(), func(note string) bool { return strings.Contains(note, "create_disk was under way in version 2") }) {
		t.Errorf("restored %+v, %v", st, r.Notes())
	}
	// A damaged file is no obstacle, and is not lost.
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = Restore(t.Context(), path, 3, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if st := r.Get(); st.Own.Serial != 5 || st.Disks[0].CID != "disk-1" || len(r.Notes()) != 1 {
		t.Errorf("restored %+v, %v", st, r.Notes())
	}
	if data, err := os.ReadFile(path + ".damaged"); err != nil || string(data) != "{" {
		t.Errorf("damaged file: %s, %v", data, err)
	}
}

// The numbers of a new state go on after those of kept backups.
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

func TestMirror(t *testing.T) {
	for name, c := range map[string]struct {
		create func(map[string]any) // what create-env changed
		same   bool                 // whether the VM is the one we made
	}{
		"nothing":     {nil, true},
		"another VM":  {func(s map[string]any) { s["current_vm_cid"] = "vm-2" }, false},
		"no disk":     {func(s map[string]any) { s["current_disk_id"] = "" }, false},
		"the orphan":  {func(s map[string]any) { s["disks"] = []any{map[string]any{"id": "o", "cid": "disk-0"}} }, false},
		"another key": {func(s map[string]any) { s["current_manifest_sha"] = "new" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
			f := with(t, path, home)
			update(t, f, func(s *state.State) {
				id, director := s.InstallationID, s.DirectorID
				*s = sound()
				s.InstallationID, s.DirectorID = id, director
				s.Own.AgentID, s.Own.Reached, s.Own.Made, s.Own.Salt = "agent", true, map[string]string{"env": "x"}, "salt"
			})
			want := f.Get()
			if m := mode(t, f.mirrorPath()); m != 0o600 {
				t.Errorf("mode %v", m)
			}
			f.Close()
			asCreateEnv(t, path, c.create)
			f = with(t, path, home)
			got := f.Get()
			if len(f.Notes()) != 1 {
				t.Errorf("notes %v", f.Notes())
			}
			if same := got.Own.AgentID == "agent" && got.Own.Reached && got.Own.Made["env"] == "x"; same != c.same {
				t.Errorf("own part %+v", got.Own)
			}
			orphans := 1
			if name == "the orphan" {
				orphans = 0
			}
			if len(got.Own.Orphans) != orphans || len(got.Own.Leftovers) != 1 || got.Own.Serial != want.Own.Serial || got.Own.Salt != "salt" {
				t.Errorf("what is not of the VM: %+v", got.Own)
			}
			update(t, f, func(*state.State) {})
		})
	}
}

// A file from before, such as one out of version control, is told of.
func TestOlderThanTheMirror(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	update(t, f, func(*state.State) {})
	f.Close()
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	again, err := Open(t.Context(), path, Options{Home: home, Warn: func(err error) { warnings = append(warnings, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "is older (serial number 1)") {
		t.Errorf("warnings %v", warnings)
	}
}

// Two copies of one state share the installation, and that is locked, too.
func TestInstallationIsLocked(t *testing.T) {
	dir := t.TempDir()
	path, twin, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "twin.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(twin, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := Open(t.Context(), twin, Options{Home: home}); !errors.As(err, &locked) || locked.What != "the installation" {
		t.Fatalf("error %v", err)
	}
	// A folder that is removed by its holder is made anew.
	if err := os.RemoveAll(f.dir()); err != nil {
		t.Fatal(err)
	}
	with(t, twin, home)
}

func TestLockWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first := open(t, path)
	waiting := make(chan *LockedError, 1)
	opts := Options{Wait: time.Minute, Waiting: func(l *LockedError) { waiting <- l }}
	type result struct {
		f   *Store
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := Open(t.Context(), path, opts)
		done <- result{f, err}
	}()
	if l := <-waiting; l.Holder.PID != os.Getpid() {
		t.Errorf("holder %+v", l.Holder)
	}
	first.Close()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.f.Close()

	ctx, cancel := context.WithCancel(t.Context())
	opts.Waiting = func(*LockedError) { cancel() }
	if _, err := Open(ctx, path, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	var locked *LockedError
	if _, err := Open(t.Context(), path, Options{Wait: time.Millisecond}); !errors.As(err, &locked) {
		t.Errorf("too long: %v", err)
	}
}

// What a write that was killed left goes, and nothing else.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".state.json1234", ".state.json", ".state.json.swp", ".state.json12x", "state.json1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, filepath.Join(dir, "state.json"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".state.json", ".state.json.swp", ".state.json12x", "state.json.lock", "state.json1"}; !slices.Equal(names, want) {
		t.Errorf("left %v", names)
	}
}

// So does what one of the mirror left.
func TestTemporaryMirrorIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	again := func() *Store {
		f, err := Open(t.Context(), path, Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := again()
	update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	f.Close()
	left := filepath.Join(home, f.Get().InstallationID, ".state.json77")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again().Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left %s, %v", left, err)
	}
}

// Who only looks waits for nobody and leaves nothing.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	legacy := filepath.Join(dir, LegacyName)
	if err := os.WriteFile(legacy, fixture(t, "bosh-deployments.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenReadOnly(filepath.Join(dir, "state.json"), Options{Home: filepath.Join(dir, "home"), Legacy: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st := f.Get(); st.CurrentVMCID != "i-0a1b2c3d" || f.Found() || len(f.Notes()) != 1 {
		t.Errorf("read %+v, %v", st, f.Notes())
	}
	if f.Update(func(*state.State) error { return nil }) == nil {
		t.Error("it was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); !slices.Equal(left, []string{legacy}) {
		t.Errorf("left %v", left)
	}
}

func TestLinkToNothingIsFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("real.json", filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	update(t, open(t, filepath.Join(dir, "link.json")), func(*state.State) {})
	if _, err := os.Stat(filepath.Join(dir, "real.json")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("loop.json", filepath.Join(dir, "loop.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "loop.json"), Options{}); err == nil || !strings.Contains(err.Error(), "leads to itself") {
		t.Errorf("error %v", err)
	}
}

// The file of an old bosh-init counts where there is no state, and goes out of
// the way with the first write.
func TestLegacyFileIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	path, legacy := filepath.Join(dir, "state.json"), filepath.Join(dir, LegacyName)
	if err := os.WriteFile(legacy, fixture(t, "bosh-deployments.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Legacy: legacy, Warn: func(err error) { t.Errorf("warning: %v", err) }}
	f, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st := f.Get(); f.Found() || st.CurrentVMCID != "i-0a1b2c3d" || st.InstallationID == "" || len(f.Notes()) != 1 {
		t.Errorf("read %+v, %v", st, f.Notes())
	}
	if _, err := os.Stat(legacy); err != nil {
		t.Errorf("Open touched it: %v", err)
	}
	update(t, f, func(*state.State) {})
	if _, err := os.Stat(legacy + ".migrated"); err != nil {
		t.Error(err)
	}
	f.Close()
	// A state that is there counts alone.
	if err := os.WriteFile(legacy, []byte("instances: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(t.Context(), path, opts); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(t.Context(), path+"2", opts); err == nil || !strings.Contains(err.Error(), legacy) {
		t.Errorf("error %v", err)
	}
}

// What a newer version or another tool has written is there after each rewrite,
// in the file and in its mirror.
func TestUnknownKeysAreKept(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	const text = `{
	"director_id": "d", "installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10",
	"zebra": {"b": [1, 2.50, "<&>"], "a": null}, "Apple": true, "DISKS": [],
	"bootstrap": {"format": 1, "serial": 3, "later": {"x": 1}, "address": "10.0.0.1"}
}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f := with(t, path, home)
		update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
		f.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := compact(t, data)
		for _, want := range []string{`"zebra":{"b":[1,2.50,"\u003c\u0026\u003e"],"a":null}`, `"Apple":true`, `"later":{"x":1}`, `"address":"10.0.0.1"`, `"current_vm_cid":"vm-1"`} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s is not once in %s", want, got)
			}
		}
		if strings.Contains(got, "DISKS") {
			t.Errorf("a key that is known is written twice: %s", got)
		}
	}
	asCreateEnv(t, path, nil) // which drops our part
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(compact(t, data), `"later":{"x":1}`) {
		t.Errorf("%s, %v", data, err)
	}
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var b, escaped bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	json.HTMLEscape(&escaped, b.Bytes()) // as encoding/json writes it
	return escaped.String()
}

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "state", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sound is a valid state with all kinds of records.
func sound() state.State {
	return state.State{
		DirectorID: "d", InstallationID: "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10",
		CurrentVMCID: "vm-1", CurrentStemcellID: "s", CurrentDiskID: "d", CurrentReleaseIDs: []string{"r"},
		Disks:     []state.Disk{{ID: "d", CID: "disk-1", Size: 1024}},
		Stemcells: []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}},
		Releases:  []state.Release{{ID: "r", Name: "web", Version: "1"}},
		Own: state.Own{
			Swap:      &state.OldVM{CID: "vm-0", StemcellID: "s"},
			Orphans:   []state.Orphan{{CID: "disk-0", Size: 512}},
			Intents:   []state.Intent{{ID: "i", Method: "create_vm"}},
			Leftovers: []state.Leftover{{Intent: state.Intent{ID: "l", Method: "delete_vm", CID: "vm-x"}}},
		},
	}
}
