package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/wait"
)

// The VM's cgroup in the VM's view, and its child in which the VM's processes start. If
// the VM has no cgroup of its own and sees those of the machine, the child does not
// exist.
const (
	cgroupPlace = "/sys/fs/cgroup"
	cgroupFirst = "vm-processes"
)

// cgroup returns the folder of the VM's cgroup; empty if it has none of its own.
func (v VM) cgroup() string {
	if _, err := os.Stat(filepath.Join(cgroupPlace, cgroupFirst, "cgroup.procs")); !v.inside || err != nil {
		return ""
	}
	return cgroupPlace
}

// Usage has the resources that all processes of a VM use together.
type Usage struct {
	MemoryKB uint64 // without page cache that can be dropped
	SwapKB   uint64
	User     time.Duration // CPU time since the VM was started
	System   time.Duration
	PIDs     uint64 // processes and threads
	Killed   uint64 // processes that the kernel killed for lack of memory
}

// Usage returns the resources that the VM uses; false: the VM has no cgroup that counts
// them.
func (v VM) Usage() (Usage, bool) {
	dir := v.cgroup()
	if dir == "" {
		return Usage{}, false
	}
	cpu := counters(dir, "cpu.stat")
	memory, counted := counters(dir, "memory.current")[""]
	if !counted {
		return Usage{}, false
	}
	return Usage{
		MemoryKB: (memory - min(memory, counters(dir, "memory.stat")["inactive_file"])) / 1024,
		SwapKB:   counters(dir, "memory.swap.current")[""] / 1024,
		User:     time.Duration(cpu["user_usec"]) * time.Microsecond,   // #nosec G115 -- not after 292 years
		System:   time.Duration(cpu["system_usec"]) * time.Microsecond, // #nosec G115 -- not after 292 years
		PIDs:     counters(dir, "pids.current")[""],
		Killed:   counters(dir, "memory.events")["oom_kill"],
	}, true
}

// counters reads a file of a cgroup with lines "NAME NUMBER". In a file with a single
// number, the name is empty.
func counters(dir, file string) map[string]uint64 {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	all := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, number, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			name, number = "", name
		}
		if n, err := strconv.ParseUint(number, 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

// MakeCgroup makes a cgroup below the VM's, writes the limits into the named files, and
// returns its folder; empty if the VM has no cgroup of its own.
func (v VM) MakeCgroup(name string, files map[string]string) (string, error) {
	parent := v.cgroup()
	if parent == "" {
		return "", nil
	}
	controlled, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // #nosec G301 -- a cgroup, as all are
		return "", err
	}
	for file, value := range files {
		controller, _, _ := strings.Cut(file, ".")
		if !slices.Contains(strings.Fields(string(controlled)), controller) {
			return "", errors.Join(fmt.Errorf("the cgroup of the VM has no control over %s", controller), os.Remove(dir))
		}
		err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0) // #nosec G306 -- it exists
		if err != nil && !(file == "memory.swap.max" && errors.Is(err, fs.ErrNotExist)) {
			return "", errors.Join(err, os.Remove(dir))
		}
	}
	return dir, nil
}

// RemoveCgroup kills the processes in a cgroup of MakeCgroup, and removes it. It
// returns how many processes the kernel killed for lack of memory.
func (v VM) RemoveCgroup(ctx context.Context, name string) (killed uint64, err error) {
	parent := v.cgroup()
	if parent == "" {
		return 0, nil
	}
	dir := filepath.Join(parent, name)
	killed = counters(dir, "memory.events")["oom_kill"]
	limited, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	var why error
	err = wait.Poll(limited, removePause, func() (bool, error) {
		if why = os.Remove(dir); why == nil || errors.Is(why, fs.ErrNotExist) {
			return true, nil
		}
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // #nosec G306 -- it exists
		return false, nil
	})
	if err != nil {
		err = fmt.Errorf("cannot remove a cgroup: %w", errors.Join(why, err))
	}
	return killed, err
}

// Time limits for the processes of a cgroup to end after KILL.
const (
	removeTime  = 5 * time.Second
	removePause = 5 * time.Millisecond
)
