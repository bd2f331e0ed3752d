package namespace

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"bootstrap/local/cgroup"
)

// divide moves this process and the first one of a VM from the root of the VM's cgroups
// to the cgroup below it, so that the VM can divide the root.
func divide(dir string, first int) error {
	if dir == "" {
		return nil
	}
	for _, pid := range []int{first, os.Getpid()} {
		if err := os.WriteFile(filepath.Join(dir, cgroup.FirstDir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return cgroup.Control(dir)
}

// showCgroup makes the VM's cgroup the root of all cgroups in the VM's view.
func showCgroup() error {
	const place, temporary = "/sys/fs/cgroup", "/run/cgroup"
	// The kernel refuses to mount a file system on top of itself, but not to move it
	// there.
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return err
	}
	if err := mount("cgroup", temporary, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount(temporary, place, "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return os.Remove(temporary)
}

// limitPIDs limits the number of processes and threads of this namespace's user. Kernels
// before 5.14 count all processes of that user. A lower limit of the person (ulimit -u)
// stays, because only root may raise it.
func limitPIDs(most int) error {
	if most == 0 || !cgroup.CountsByNamespace() {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		return err
	}
	limit := min(uint64(most), now.Max)
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit})
}
