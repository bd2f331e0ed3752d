package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bootstrap/deployment/dns"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/versions"
)

// placeOf returns the place of a deployment whose record and states are in a folder.
func placeOf(dir string) Place {
	path := filepath.Join(dir, "page-state.json")
	return Place{Name: path, Path: path, Opts: file.Options{Holder: state.Holder{User: "anna", Host: "here", PID: os.Getpid(), Command: "deploy page.yml"}}}
}

// write writes a record with instances of these names and VMs, and keeps it as a version.
func write(t *testing.T, at Place, vms map[string]string) {
	t.Helper()
	r, err := record.Load(at.Dir())
	if err != nil {
		t.Fatal(err)
	}
	r.Name, r.Instances = "page", nil
	for name, cid := range vms {
		group, index, _ := strings.Cut(name, "/")
		i, _ := strconv.Atoi(index)
		in := &record.Instance{ID: fmt.Sprintf("%s%d%s", group, i, "-0000000"), Group: group, Index: i}
		in.State = r.NewState(in)
		r.Instances = append(r.Instances, in)
		s, err := file.Open(t.Context(), r.StatePath(in), file.Options{})
		if err == nil {
			err = s.Update(func(st *state.State) error { st.CurrentVMCID = cid; return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	keep(t, at)
}

func keep(t *testing.T, at Place) {
	t.Helper()
	if err := KeepVersion(t.Context(), at.Dir(), at.Opts, &at.Opts.Holder); err != nil {
		t.Fatal(err)
	}
}

// serials returns the numbers of the versions at a place.
func serials(t *testing.T, at Place) (list []int) {
	t.Helper()
	all, err := at.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		list = append(list, v.Serial)
	}
	return list
}

// vmsOf returns the VMs of the present instances.
func vmsOf(t *testing.T, at Place) map[string]string {
	t.Helper()
	r, err := record.Load(at.Dir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, in := range r.Instances {
		st, _, err := r.ReadState(in, "")
		if err != nil {
			t.Fatal(err)
		}
		all[in.Name()] = st.CurrentVMCID
	}
	return all
}

// A version is kept only if something has changed, and not more than the limit.
func TestKeepVersion(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	keep(t, at) // there is no record
	write(t, at, map[string]string{"web/0": "vm-1"})
	keep(t, at)
	if got := serials(t, at); !slices.Equal(got, []int{1}) {
		t.Error(got)
	}
	for i := range versions.Kept + 2 {
		write(t, at, map[string]string{"web/0": fmt.Sprintf("vm-%d", i+2)})
	}
	if got := serials(t, at); len(got) != versions.Kept || got[0] != versions.Kept+3 {
		t.Error(got)
	}
	info, err := os.Stat(filepath.Join(record.VersionsIn(at.Dir()), "23.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

// A restore changes nothing while another run has the lock of the deployment or of an
// instance.
func TestRestoreLocked(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	write(t, at, map[string]string{"web/0": "vm-1", "web/1": "vm-2"})
	write(t, at, map[string]string{"web/0": "vm-1", "web/1": "vm-3"})
	refused := func(what string) {
		t.Helper()
		_, err := Restore(t.Context(), at, 1, true)
		if _, locked := errors.AsType[*file.LockedError](err); !locked {
			t.Errorf("%s is locked, and the restore says %v", what, err)
		}
		if got := vmsOf(t, at); got["web/1"] != "vm-3" {
			t.Error(got)
		}
	}
	lock, err := file.LockRecord(t.Context(), nil, record.LockPath(at.Dir()), at.Opts)
	if err != nil {
		t.Fatal(err)
	}
	refused("the deployment")
	lock.Unlock(t.Context(), nil)
	r, err := record.Load(at.Dir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := file.Open(t.Context(), r.StatePath(r.Instances[1]), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused("an instance")
	s.Close()
	if _, err := Restore(t.Context(), at, 1, true); err != nil {
		t.Error(err)
	}
}

// A restore that is killed at any write is continued by the same command, and until then
// no command uses the record.
func TestRestoreKilled(t *testing.T) {
	if left := os.Getenv("RESTORE_WRITES"); left != "" {
		at := placeOf(os.Getenv("RESTORE_DIR"))
		n, _ := strconv.Atoi(left)
		at.Opts.Trace = func(string) {
			if n--; n < 0 {
				os.Exit(3)
			}
		}
		if _, err := Restore(t.Context(), at, 1, true); err != nil {
			t.Error(err)
		}
		return
	}
	t.Parallel()
	old := map[string]string{"web/0": "vm-1", "web/1": "vm-2", "web/2": "vm-3"}
	for writes := 0; ; writes++ {
		dir := t.TempDir()
		at := placeOf(dir)
		write(t, at, old)
		write(t, at, map[string]string{"web/0": "vm-4", "web/1": "vm-5", "web/3": "vm-6"})
		cmd := exec.Command(os.Args[0], "-test.run=^TestRestoreKilled$")
		cmd.Env = append(os.Environ(), "RESTORE_DIR="+dir, fmt.Sprintf("RESTORE_WRITES=%d", writes))
		out, err := cmd.CombinedOutput()
		if err == nil { // no write is left
			if writes < 6 {
				t.Errorf("the restore has only %d moments of writes: %s", writes, out)
			}
			return
		}
		if cmd.ProcessState.ExitCode() != 3 {
			t.Fatalf("%v: %s", err, out)
		}
		if _, restoring := errors.AsType[*record.RestoringError](loadError(at)); !restoring {
			t.Errorf("killed at write %d, the record says %v", writes, loadError(at))
		}
		done, err := Restore(t.Context(), at, 1, false) // as the message says
		if err != nil {
			t.Fatal(err)
		}
		if got := vmsOf(t, at); fmt.Sprint(got) != fmt.Sprint(old) {
			t.Errorf("killed at write %d, the instances are %v", writes, got)
		}
		if done.Version.Serial != 3 && done.Version.Serial != 4 {
			t.Error(done.Version.Serial)
		}
		// What was there before can be restored, too.
		if _, err := Restore(t.Context(), at, 2, true); err != nil {
			t.Fatal(err)
		}
		if got := vmsOf(t, at); got["web/3"] != "vm-6" || len(got) != 3 {
			t.Errorf("killed at write %d, and restored, the instances are %v", writes, got)
		}
	}
}

// The state of an instance stays where it is: the name of its file has the group that it had
// when it was created.
func TestRestoreRenamed(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		at := placeOf(t.TempDir())
		write(t, at, map[string]string{"web/0": "vm-1"})
		r, err := record.Load(at.Dir())
		if err != nil {
			t.Fatal(err)
		}
		r.Instances[0].Group = "app" // migrated_from
		if err := r.Save(); err != nil {
			t.Fatal(err)
		}
		keep(t, at)
		if lost {
			if err := os.Remove(filepath.Join(at.Dir(), record.FileName)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Restore(t.Context(), at, 2, false); err != nil {
			t.Fatal(err)
		}
		if got := vmsOf(t, at); got["app/0"] != "vm-1" {
			t.Errorf("the instances are %v", got)
		}
		if _, err := Restore(t.Context(), at, 1, false); err != nil {
			t.Fatal(err)
		}
		if got := vmsOf(t, at); got["web/0"] != "vm-1" {
			t.Errorf("the instances are %v", got)
		}
	}
}

// Without a record, a restore does not replace states that are the only record of something.
func TestRestoreOwnsWithoutRecord(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	write(t, at, map[string]string{"web/0": "vm-1"})
	write(t, at, map[string]string{"web/0": "vm-2"})
	if err := os.Remove(filepath.Join(at.Dir(), record.FileName)); err != nil {
		t.Fatal(err)
	}
	_, err := Restore(t.Context(), at, 1, false)
	if owns, ok := errors.AsType[*file.OwnsError](err); !ok || !slices.Equal(owns.Owned, []string{"VM vm-2 of web/0"}) {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), at, 1, true); err != nil {
		t.Fatal(err)
	}
	if got := vmsOf(t, at); got["web/0"] != "vm-1" {
		t.Error(got)
	}
	if _, err := Restore(t.Context(), at, 2, true); err != nil {
		t.Fatal(err)
	}
	if got := vmsOf(t, at); got["web/0"] != "vm-2" {
		t.Error(got)
	}
}

// A version with a damaged state is refused before anything is changed.
func TestRestoreDamagedVersion(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	write(t, at, map[string]string{"web/0": "vm-1"})
	write(t, at, map[string]string{"web/0": "vm-2"})
	path := filepath.Join(record.VersionsIn(at.Dir()), "1.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), `"vm-1"`, `7`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), at, 1, true); err == nil || !strings.Contains(err.Error(), "the state of web/0 is damaged") || !strings.Contains(err.Error(), "`bootstrap state backups MANIFEST` lists the others") {
		t.Error(err)
	}
	if got := vmsOf(t, at); got["web/0"] != "vm-2" {
		t.Error(got)
	}
}

// A move keeps versions that it cannot copy.
func TestMoveDamagedVersion(t *testing.T) {
	t.Parallel()
	from, to := placeOf(t.TempDir()), placeOf(t.TempDir())
	var warnings []string
	from.Opts.Warn = func(err error) { warnings = append(warnings, err.Error()) }
	write(t, from, map[string]string{"web/0": "vm-1"})
	write(t, from, map[string]string{"web/0": "vm-2"})
	folder := record.VersionsIn(from.Dir())
	if err := os.WriteFile(filepath.Join(folder, "1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Move(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if got := serials(t, to); !slices.Equal(got, []int{2}) {
		t.Errorf("the versions %v are moved", got)
	}
	if left := record.Versions(folder); len(left) != 1 || left[0].Serial != 1 {
		t.Errorf("%v are left", left)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "cannot move version 1") {
		t.Errorf("the warnings are %q", warnings)
	}
}

// A disk that is the current one in a version and orphaned in another is recorded in both.
func TestRestoreOrphaned(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	change := func(do func(*state.State)) {
		t.Helper()
		r, err := record.Load(at.Dir())
		if err != nil {
			t.Fatal(err)
		}
		s, err := file.Open(t.Context(), r.StatePath(r.Instances[0]), file.Options{})
		if err == nil {
			err = s.Update(func(st *state.State) error { do(st); return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		keep(t, at)
	}
	write(t, at, map[string]string{"web/0": "vm-1"})
	change(func(st *state.State) {
		st.AddDisk("disk-1", 64, map[string]any{})
		st.CurrentDiskID = st.Disks[0].ID
	})
	change(func(st *state.State) { st.Orphan(st.Disks[0], "it was replaced", time.Now()) })
	for _, serial := range []int{2, 3} {
		done, err := Restore(t.Context(), at, serial, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.Before.Only) > 0 {
			t.Error(done.Before.Only)
		}
	}
}

// The oldest version is not removed while it is restored: after a kill, the restore needs it.
func TestRestoreOldest(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	for i := range versions.Kept {
		write(t, at, map[string]string{"web/0": fmt.Sprintf("vm-%d", i)})
	}
	r, err := record.Load(at.Dir())
	if err != nil {
		t.Fatal(err)
	}
	r.Instances[0].Ignored = true // a command about one instance
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	// Its last step fails, as if it was killed before.
	if err := os.Mkdir(filepath.Join(record.VersionsIn(at.Dir()), strconv.Itoa(versions.Kept+2)+".json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), at, 1, true); err == nil {
		t.Fatal("the version that it restored could be kept")
	}
	if got := serials(t, at); !slices.Contains(got, 1) {
		t.Errorf("the versions are %v", got)
	}
	if _, err := Restore(t.Context(), at, 1, true); err == nil {
		t.Fatal("the version that it restored could be kept")
	}
	if got := vmsOf(t, at); got["web/0"] != "vm-0" {
		t.Error(got)
	}
}

func loadError(at Place) error {
	_, err := record.Load(at.Dir())
	return err
}

// A version that a forced restore makes the only record of something stays until that is
// recorded again.
func TestRestoreKeepsOnly(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	write(t, at, map[string]string{"web/0": "vm-1"})
	write(t, at, map[string]string{"web/0": "vm-1", "web/1": "vm-2"})
	_, err := Restore(t.Context(), at, 1, false)
	if owns, ok := errors.AsType[*file.OwnsError](err); !ok || !slices.Equal(owns.Owned, []string{"VM vm-2 of web/1"}) {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), at, 1, true); err != nil {
		t.Fatal(err)
	}
	for i := range versions.Kept + 2 {
		write(t, at, map[string]string{"web/0": fmt.Sprintf("vm-1%d", i)})
	}
	if got := serials(t, at); !slices.Contains(got, 2) {
		t.Fatal(got)
	}
	r, err := record.Load(at.Dir())
	if err == nil {
		r.Instances = nil
		err = errors.Join(r.Forget(), os.RemoveAll(at.Dir()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := serials(t, at); !slices.Equal(got, []int{2}) {
		t.Errorf("the deployment was deleted, and the versions %v are kept", got)
	}
	if _, err := Restore(t.Context(), at, 2, false); err != nil {
		t.Fatal(err)
	}
	if got := vmsOf(t, at); got["web/1"] != "vm-2" {
		t.Error(got)
	}
	all, err := at.Versions(t.Context())
	for _, v := range all {
		if len(v.Only) > 0 {
			t.Errorf("version %d is the only record of %v", v.Serial, v.Only)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// The store of a team has the versions for all machines; also those of a record that
// was removed from it.
func TestVersionsStored(t *testing.T) {
	t.Parallel()
	open := storeOf(t)
	in := func(home string) Place {
		c := open(home, "anna")
		at := placeOf(home)
		at.Path, at.Opts.Team = c.StatePath(), c
		return at
	}
	a := in(t.TempDir())
	kept := func(at Place, ids ...string) {
		t.Helper()
		r, l := lockStored(t, at.Opts.Team)
		saveStored(t, r, ids...)
		keep(t, at)
		unlockStored(t, l)
	}
	kept(a, "1", "2")
	kept(a, "1", "2", "3")
	b := in(t.TempDir())
	if got := serials(t, b); !slices.Equal(got, []int{2, 1}) {
		t.Fatal(got)
	}
	if _, err := Restore(t.Context(), b, 1, false); err != nil {
		t.Fatal(err)
	}
	if r := loadStored(t, b.Opts.Team); len(r.Instances) != 2 {
		t.Errorf("there are %d instances", len(r.Instances))
	}
	if got := serials(t, a); !slices.Equal(got, []int{3, 2, 1}) {
		t.Error(got)
	}
	_, l := lockStored(t, a.Opts.Team)
	_, err := Restore(t.Context(), b, 1, false)
	if err == nil || !strings.Contains(err.Error(), "is locked by anna@here") {
		t.Error(err)
	}
	unlockStored(t, l)
}

// A machine keeps its copies of versions if somebody has emptied the store, and removes those
// that the store has pruned.
func TestCopiesOfVersions(t *testing.T) {
	t.Parallel()
	open := storeOf(t)
	in := func(home string) Place {
		c := open(home, "anna")
		at := placeOf(home)
		at.Path, at.Opts.Team = c.StatePath(), c
		return at
	}
	a, b := in(t.TempDir()), in(t.TempDir())
	keepNext := func(instances ...string) {
		t.Helper()
		r, l := lockStored(t, a.Opts.Team)
		saveStored(t, r, instances...)
		keep(t, a)
		unlockStored(t, l)
	}
	copies := func() (list []int) {
		for _, v := range record.Versions(record.CopiesIn(b.Dir())) {
			list = append(list, v.Serial)
		}
		return list
	}
	keepNext("1")
	keepNext("1", "2")
	if got := serials(t, b); !slices.Equal(got, []int{2, 1}) || !slices.Equal(copies(), got) {
		t.Fatalf("the versions are %v, the copies %v", got, copies())
	}
	for i := range versions.Kept - 1 {
		keepNext("1", "2", fmt.Sprint(3+i))
	}
	if got := serials(t, b); len(got) != versions.Kept || slices.Contains(got, 1) || !slices.Equal(copies(), got) {
		t.Fatalf("the versions are %v, the copies %v", got, copies())
	}
	had := copies()
	_, l := lockStored(t, a.Opts.Team)
	if err := a.Opts.Team.Record().Remove(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	unlockStored(t, l)
	if got := serials(t, b); len(got) > 0 || !slices.Equal(copies(), had) {
		t.Errorf("the emptied store has %v, the copies are %v", got, copies())
	}
}

// Agents accept only newer DNS records, so a restore continues their versions and the numbers
// of names, also if the present record is lost.
func TestRestoreContinuesNames(t *testing.T) {
	t.Parallel()
	at := placeOf(t.TempDir())
	name := func(vm string, version uint64) {
		t.Helper()
		write(t, at, map[string]string{"web/0": vm})
		r, err := record.Load(at.Dir())
		if err != nil {
			t.Fatal(err)
		}
		r.Names = &dns.Names{Version: version, Digest: fmt.Sprint(version), LastInstance: int(version)}
		s, err := file.Open(t.Context(), r.StatePath(r.Instances[0]), file.Options{})
		if err == nil {
			err = errors.Join(s.Update(func(st *state.State) error { st.Own.DNSVersion = version; return nil }), r.Save())
			s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		keep(t, at)
	}
	name("vm-1", 3)
	name("vm-1", 7)
	restore := func(serial int) (record.Record, state.State) {
		t.Helper()
		if _, err := Restore(t.Context(), at, serial, true); err != nil {
			t.Fatal(err)
		}
		r, err := record.Load(at.Dir())
		if err != nil {
			t.Fatal(err)
		}
		st, _, err := file.Read(r.StatePath(r.Instances[0]), "")
		if err != nil {
			t.Fatal(err)
		}
		return *r, st
	}
	all := serials(t, at)
	r, st := restore(all[len(all)-2]) // the first with names
	if r.Names.Version != 7 || r.Names.Digest != "" || r.Names.LastInstance != 7 || st.Own.DNSVersion != 7 {
		t.Errorf("%+v, %d", r.Names, st.Own.DNSVersion)
	}
	if err := os.Remove(filepath.Join(at.Dir(), record.FileName)); err != nil {
		t.Fatal(err)
	}
	if r, _ := restore(all[len(all)-2]); r.Names.Version <= 7 || r.Names.Digest != "" {
		t.Errorf("%+v", r.Names)
	}
}

// A version is that of a finished deploy if each instance was deployed.
func TestFinished(t *testing.T) {
	t.Parallel()
	v := &record.Version{
		Record: &record.Record{Instances: []*record.Instance{{ID: "a"}, {ID: "b", Ignored: true}}},
		States: map[string]json.RawMessage{"a": json.RawMessage(`{"current_manifest_sha": "1"}`)},
	}
	if !Finished(v) {
		t.Error("all instances that are not ignored were deployed")
	}
	v.Record.Run = &record.Run{Command: "restart"}
	if Finished(v) {
		t.Error("a restart was not finished")
	}
	v.Record.Run = nil
	for _, state := range []string{`{"current_vm_cid": "vm-1"}`, "{", ""} {
		v.States["a"] = json.RawMessage(state)
		if Finished(v) {
			t.Errorf("the instance with the state %q was deployed", state)
		}
	}
}
