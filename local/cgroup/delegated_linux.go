package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// delegation is the attribute that systemd gives to a cgroup whose owner may divide it.
const delegation = "user.delegate"

// delegatedShell is the command that starts a shell in a cgroup of the user's systemd.
const delegatedShell = "systemd-run --user --scope -p Delegate=yes bash"

// Delegated returns the cgroup of this process as the place for the cgroups of VMs, if its
// owner is this user, who may divide it; otherwise it returns a RefusedError. VMs have no
// limits there, because the cgroup contains processes.
func Delegated() (Home, error) {
	h := Home{mount: mountPoint()}
	if h.mount == "" {
		return h, &RefusedError{Cause: "this machine has no cgroups of version 2", Remedy: unified}
	}
	own, err := cgroupOf(os.Getpid())
	if err != nil {
		return h, &RefusedError{Cause: err.Error(), Remedy: unified}
	}
	return h, h.divisible(own)
}

// divisible makes a cgroup the parent of VMs' cgroups, or returns why this user may not
// divide it.
func (h *Home) divisible(own string) error {
	refused := &RefusedError{Cause: fmt.Sprintf("the cgroup %s of this process does not belong to you", own)}
	dir := filepath.Join(h.mount, own)
	if mine := filepath.Join(h.mount, "bootstrap-"+strconv.Itoa(os.Getuid())); os.Getuid() != 0 {
		refused.Remedy = fmt.Sprintf("run it in a shell for which root did this: d=%[1]s; mkdir -p $d; chown %[2]d $d $d/cgroup.procs $d/cgroup.subtree_control; echo PID >$d/cgroup.procs", mine, os.Getuid())
	}
	if strings.Contains(own, "/user@") {
		refused.Remedy = "run it in a shell of " + delegatedShell
		mark := make([]byte, 1)
		if _, err := unix.Getxattr(dir, delegation, mark); err != nil || mark[0] != '1' {
			refused.Cause = "systemd has not delegated the cgroup of this process"
			return refused
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "cgroup.procs"), filepath.Join(dir, "cgroup.subtree_control")} {
		info, err := os.Stat(name)
		if err != nil {
			return &RefusedError{Cause: err.Error()}
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() || unix.Access(name, unix.W_OK) != nil {
			return refused
		}
	}
	h.dir = own
	return nil
}
