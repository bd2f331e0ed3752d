package kept

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/state"
)

// Files have the number of the format and mode 0600, and can be read again.
func TestFormat(t *testing.T) {
	f := At(filepath.Join(t.TempDir(), "id"))
	want := Agent{VM: "vm-1", MBus: "https://a:b@10.0.0.5:6868", Next: &Agent{MBus: "https://a:c@10.0.0.5:6868"}}
	if err := errors.Join(f.SetAgent(want), f.SetDeployment(Deployment{Name: "web"}), f.SetSecondDisk(SecondDisk{CPI: []string{"cpi/1"}, New: true})); err != nil {
		t.Fatal(err)
	}
	if got, ok := f.Agent(); !ok || got.VM != "vm-1" || got.Next == nil || got.Next.Access().User() != "a:c" {
		t.Errorf("read %+v", got)
	}
	if d, ok := f.Deployment(); !ok || d.Name != "web" {
		t.Errorf("read %+v", d)
	}
	if !f.SecondDisk([]string{"cpi/1"}).New || f.SecondDisk([]string{"cpi/2"}).New {
		t.Error("what one CPI cannot do counts for another, or not for itself")
	}
	for _, name := range []string{"agent.json", "installation.json", "second-disk.json"} {
		data, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil || !strings.HasPrefix(string(data), `{"format":1,`) {
			t.Errorf("%s: %v %.20s", name, err, data)
		}
		if info, err := os.Stat(filepath.Join(f.dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// A file that a newer version wrote is refused, and is not overwritten.
func TestNewerFormat(t *testing.T) {
	for _, name := range []string{"agent.json", "installation.json", "second-disk.json", "times.json", "timeline.json", "applied/current/record.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"format": 2, "vm": 7}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		var newer *NewerError
		if err := At(dir).Check(); !errors.As(err, &newer) || newer.Path != path || newer.Format != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Files without a number, written by older versions, are read.
func TestOlderFiles(t *testing.T) {
	ids, err := filepath.Glob(filepath.FromSlash("../../testdata/takeover/*/*/home/.bosh/*-*-*-*"))
	if err != nil || len(ids) == 0 {
		t.Fatalf("no files of older versions: %v", err)
	}
	agents, deployments, applied := 0, 0, 0
	for _, id := range ids {
		f := At(id)
		if err := f.Check(); err != nil {
			t.Error(err)
		}
		if a, ok := f.Agent(); ok {
			agents++
			if a.MBus == "" && a.Coming == nil {
				t.Errorf("%s: %+v", id, a)
			}
		}
		if d, ok := f.Deployment(); ok {
			deployments++
			if d.Name == "" || d.MBusURL() == nil {
				t.Errorf("%s: %+v", id, d)
			}
		}
		if a, ok := f.Applied(Current); ok {
			applied++
			if a.VM == "" || a.Digest == "" || len(a.Spec.Job.Templates) == 0 {
				t.Errorf("%s: %+v", id, a)
			}
		}
	}
	if agents == 0 || deployments == 0 || applied == 0 {
		t.Errorf("read %d agents, %d deployments, %d deploys", agents, deployments, applied)
	}
}

// Of finds the agent of the current VM, of the replaced one and of one that is being
// created.
func TestAgentOf(t *testing.T) {
	a := Agent{VM: "new", MBus: "n", Old: &Agent{VM: "old", MBus: "o"}, Coming: &Agent{AgentID: "id", MBus: "c"}}
	made := func(is string) func(string) bool { return func(id string) bool { return id == is } }
	for _, c := range []struct{ vm, with, mbus string }{{"new", "id", "n"}, {"old", "id", "o"}, {"third", "id", "c"}, {"third", "other", ""}} {
		got, ok := a.Of(c.vm, made(c.with))
		if ok != (c.mbus != "") || ok && (got.MBus != c.mbus || got.VM != c.vm) {
			t.Errorf("%s made with %s: %+v, %t", c.vm, c.with, got, ok)
		}
	}
}

// A deploy becomes the current one, and the earlier one can be put back.
func TestApplied(t *testing.T) {
	f := At(t.TempDir())
	archive := func(text string) string {
		path := filepath.Join(t.TempDir(), "rendered.tgz")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i, digest := range []string{"one", "two"} {
		a := Applied{VM: "vm-1", Disk: &state.Disk{CID: "d", Size: 1}, Digest: digest, Spec: agent.Spec{Name: "web"}}
		if err := f.SetApplied(a, []byte(digest), archive(digest), i > 0); err != nil {
			t.Fatal(err)
		}
	}
	says := func(which Which, want string) {
		t.Helper()
		a, ok := f.Applied(which)
		data, err := os.ReadFile(f.Rendered(which))
		if !ok || err != nil || a.Digest != want || string(data) != want || !a.SameDisks(state.State{CurrentDiskID: "i", Disks: []state.Disk{{ID: "i", CID: "d", Size: 1}}}) || a.SameDisks(state.State{}) {
			t.Errorf("%s: %+v %q %v, want %s", which, a, data, err, want)
		}
	}
	says(Current, "two")
	says(Previous, "one")
	if err := f.SwapApplied(); err != nil {
		t.Fatal(err)
	}
	says(Current, "one")
	says(Previous, "two")
	if sketch, err := f.Sketch(); err != nil || string(sketch) != "one" {
		t.Errorf("sketch %q, %v", sketch, err)
	}
	var st state.State
	a, _ := f.Applied(Current)
	if a.Record(&st); st.CurrentManifestSHA != "one" {
		t.Errorf("recorded %q", st.CurrentManifestSHA)
	}
}

// The expected time is the sum of the medians of the steps in the last runs.
func TestTimes(t *testing.T) {
	f := At(t.TempDir())
	expect := func(seconds float64, runs int, kinds ...string) {
		t.Helper()
		if s, n := f.Expected(kinds); s != seconds || n != runs {
			t.Errorf("%v: %v s of %d runs, want %v of %d", kinds, s, n, seconds, runs)
		}
	}
	add := func(run Times) {
		t.Helper()
		if err := f.AddTimes(run); err != nil {
			t.Fatal(err)
		}
	}
	expect(0, 0, "stop")
	add(Times{"stop": 2, "start": 1})
	expect(3, 1, "start", "stop", "stop")
	add(Times{"stop": 8})
	add(nil)
	expect(6, 1, "start", "stop")
	expect(5, 2, "stop")
	expect(0, 0, "stop", "create vm")
	add(Times{"stop": 3})
	expect(3, 3, "stop")
	for range mostTimes {
		add(Times{"apply": 0.5})
	}
	expect(0.5, mostTimes, "apply")
	expect(0, 0, "stop")
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// A writer to the store of a team can change only the shared files of the folder.
func TestUnpackTakesOnlyWhatIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"packages/cpi/bin/cpi", "../agent.json", "applied/current/../../cpi", "applied/next/record.json", "/etc/x", "applied/current/.record", `applied\current\x`, ""} {
		data, err := json.Marshal(map[string]any{"format": 1, "files": map[string][]byte{"agent.json": []byte("{}"), name: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := At(dir).Unpack(data); err == nil || !strings.Contains(err.Error(), "it names the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("written: %v, %v", entries, err)
	}
}
