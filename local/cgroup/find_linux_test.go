package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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

// A cgroup of this user is divided, and one of the user's systemd only if that has delegated
// it: otherwise systemd changes it.
func TestDivisible(t *testing.T) {
	t.Parallel()
	h := Home{mount: t.TempDir()}
	create := func(own string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(h.mount, own), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cgroup.procs", "cgroup.subtree_control"} {
			if err := os.WriteFile(filepath.Join(h.mount, own, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const mine, scope = "/mine", "/user.slice/user@1000.service/app.slice/shell.scope"
	create(mine)
	create(scope)
	if err := h.divisible(mine); err != nil || h.dir != mine {
		t.Errorf("mine: %v, %s", err, h.dir)
	}
	if err := h.divisible(scope); err == nil || err.Error() != "systemd has not delegated the cgroup of this process" {
		t.Errorf("a scope: %v", err)
	}
	if err := unix.Setxattr(filepath.Join(h.mount, scope), delegation, []byte("1"), 0); err != nil {
		t.Skipf("no attributes here: %v", err)
	}
	if err := h.divisible(scope); err != nil || h.dir != scope {
		t.Errorf("a delegated scope: %v, %s", err, h.dir)
	}
	if err := h.divisible("/missing"); err == nil {
		t.Error("a missing cgroup is divided")
	}
}
