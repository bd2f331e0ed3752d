package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// Root uses the cgroup controllers of the machine, logged in or not: root's VMs are not
// among the services of a user.
func TestFindAsRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("others have what systemd gives them")
	}
	mount := t.TempDir()
	if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := findBelow(mount)
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{CPU: 1, Memory: 1, PIDs: 1}
	if can, err := h.Can(limits); can != limits || err != nil {
		t.Errorf("it can %+v, %v", can, err)
	}
}
