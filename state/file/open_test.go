package file

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/state"
)

// TestMain runs the tests, or makes this process hold a lock or try to write.
func TestMain(m *testing.M) {
	if path := os.Getenv("STATE_TEST_HOLD"); path != "" {
		f, err := Open(context.Background(), path, Options{Holder: state.Holder{User: "other", Host: "elsewhere", PID: os.Getpid(), Command: "deploy x.yml", Since: time.Now()}})
		if err != nil {
			os.Exit(1)
		}
		defer f.Close()
		os.Stdout.WriteString("held\n")
		select {} // until it is killed
	}
	if path := os.Getenv("STATE_TEST_FULL"); path != "" {
		os.Exit(writeFull(path))
	}
	os.Exit(m.Run())
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	f, err := Open(t.Context(), path, Options{Holder: state.Holder{PID: os.Getpid(), Command: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestPath(t *testing.T) {
	for _, c := range []struct{ manifest, flag, want string }{
		{"/w/bosh.yml", "", "/w/bosh-state.json"},
		{"/w/a.b.yml", "", "/w/a.b-state.json"},
		{"/w/bosh", "", "/w/bosh-state.json"},
		{"/w/bosh.yml", "/x/s.json", "/x/s.json"},
	} {
		got, err := Path(c.manifest, c.flag)
		if err != nil || got != c.want {
			t.Errorf("Path(%q, %q) = %q, %v; want %q", c.manifest, c.flag, got, err, c.want)
		}
	}
}

// A file of create-env can be read, and create-env can read the file that is written.
func TestCreateEnvShape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	data, err := os.ReadFile("../../testdata/state/create-env.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	st := f.Get()
	if !f.Found() || st.CurrentVMCID != "vm-1" || st.Disk().CID != "disk-1" || st.Disk().Size != 65536 || st.Stemcell().CID != "sc-1" || st.Stemcell().APIVersion != 3 {
		t.Fatalf("read %+v", st)
	}
	if err := f.Update(func(*state.State) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.Unmarshal(data, &before), json.Unmarshal(written, &after)); err != nil {
		t.Fatal(err)
	}
	own := after["bootstrap"]
	delete(after, "bootstrap")
	a, _ := json.Marshal(before)
	b, _ := json.Marshal(after)
	if string(a) != string(b) {
		t.Errorf("create-env's keys changed:\n%s\n%s", a, b)
	}
	if own.(map[string]any)["serial"] != 1.0 || own.(map[string]any)["format"] != 1.0 {
		t.Errorf("own part %v", own)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestNewStateIsWrittenByFirstUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "state.json")
	f := open(t, path)
	if _, err := os.Stat(path); err == nil || f.Found() {
		t.Fatal("Open wrote a state")
	}
	id := f.Get().InstallationID
	if err := f.Update(func(s *state.State) error { s.CurrentVMCID = "vm"; return nil }); err != nil {
		t.Fatal(err)
	}
	f.Close()
	again := open(t, path).Get()
	if again.InstallationID != id || again.CurrentVMCID != "vm" {
		t.Fatalf("read back %+v", again)
	}
}

func TestUpdateThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := open(t, path)
	if err := f.Update(func(s *state.State) error { s.Disks = []state.Disk{{ID: "a", CID: "disk"}}; return nil }); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*state.State) error{
		"refused":   func(s *state.State) error { s.Disks[0].CID = "other"; return errors.New("no") },
		"empty CID": func(s *state.State) error { s.Disks[0].CID = ""; return nil },
		"no ids":    func(s *state.State) error { s.Stemcells = []state.Stemcell{{}}; return nil },
	} {
		if f.Update(change) == nil {
			t.Errorf("%s: no error", name)
		}
		if got := f.Get().Disks[0].CID; got != "disk" {
			t.Errorf("%s: the state in memory changed to %q", name, got)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %s, %v", after, err)
	}
}

func TestDamagedFilesAreRefusedAndKept(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"empty":        {"", "not a state file"},
		"truncated":    {`{"director_id": "x", "disks": [`, "not a state file"},
		"foreign":      {"- a\n- b\n", "not a state file"},
		"two objects":  {`{}{}`, "text follows"},
		"empty object": {`{"stemcells": [{}]}`, "stemcells[0] has no cid"},
		"newer":        {`{"bootstrap": {"format": 99}}`, "format is 99"},
		"evil id":      {`{"installation_id": "../../etc"}`, "not a UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), path, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v; want %q and the path in it", err, c.want)
			}
			if data, _ := os.ReadFile(path); string(data) != c.content {
				t.Errorf("the file changed to %q", data)
			}
		})
	}
}

func TestDanglingPointersAreDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, []byte(`{"current_disk_id": "gone", "current_stemcell_id": "gone", "current_release_ids": ["gone"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	st := open(t, path).Get()
	if st.Disk() != nil || st.Stemcell() != nil || st.CurrentDiskID != "" || st.CurrentReleaseIDs != nil {
		t.Errorf("read %+v", st)
	}
}

func TestSymlinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(real, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := open(t, link).Update(func(s *state.State) error { s.CurrentVMCID = "vm"; return nil }); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(real)
	if err != nil || !strings.Contains(string(data), `"current_vm_cid": "vm"`) {
		t.Errorf("behind the link: %s, %v", data, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
}

// A second process reports who holds the lock, and gets the lock when the holder is
// killed.
func TestLockOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "STATE_TEST_HOLD="+path)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != holder.Process.Pid || !strings.Contains(err.Error(), "other@elsewhere") {
		t.Errorf("error %v", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	open(t, path)
}

// A write that fails leaves the file intact.
func TestUnwritableFolderKeepsTheFile(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	f := open(t, path)
	if err := f.Update(func(s *state.State) error { s.CurrentVMCID = "one"; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if err := f.Update(func(s *state.State) error { s.CurrentVMCID = "two"; return nil }); err == nil {
		t.Error("no error")
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), `"one"`) || f.Get().CurrentVMCID != "one" {
		t.Errorf("file %s, %v; in memory %q", data, err, f.Get().CurrentVMCID)
	}
}
