//go:build unix

package file

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bootstrap/state"
)

// writeFull runs in a process whose files cannot grow beyond a few bytes, as on a full
// file system. It tries to write the state, and to rescue a CID.
func writeFull(path string) int {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := Open(context.Background(), path, Options{Home: filepath.Join(filepath.Dir(path), "home")})
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	defer f.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	in := state.Intent{ID: "i", Method: "create_vm"}
	err = f.Update(func(s *state.State) error { return s.Settle(in, "vm-2") })
	if err == nil {
		os.Stdout.WriteString("no error")
		return 1
	}
	_, lost := f.Rescue(in, "vm-2")
	if lost == nil {
		os.Stdout.WriteString("no error of the rescue")
		return 1
	}
	os.Stdout.WriteString(err.Error() + "\n" + lost.Error() + "\n")
	return 0
}

func TestFullFileSystemKeepsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := open(t, path)
	update(t, f, func(s *state.State) { s.CurrentDiskID, s.Disks = "d", []state.Disk{{ID: "d", CID: "disk-1"}} })
	f.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "STATE_TEST_FULL="+path)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"cannot write the deployment state " + path, "file too large; the file is as it was before", "create_vm made vm-2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s; want %q", out, want)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %s, %v", after, err)
	}
	// No temporary file is left.
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("left: %s", e.Name())
		}
	}
	if st := open(t, path).Get(); st.Disk() == nil || st.CurrentVMCID != "" {
		t.Errorf("state %+v", st)
	}
}
