package machine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"bootstrap/internal/process"
)

// How long the processes of a VM get between TERM and KILL, and all of it at most.
const (
	powerOffGrace = 5 * time.Second
	powerOffTime  = 4 * powerOffGrace
)

// Members returns the processes of the VM without this one.
func (v VM) Members(ctx context.Context) ([]int, error) {
	if v.inside {
		// The first process ends last, by itself.
		return slices.DeleteFunc(slices.Sorted(maps.Keys(process.Usages())), func(pid int) bool {
			return pid == 1 || pid == os.Getpid() || !process.Lives(pid)
		}), nil
	}
	return process.WithVariable(ctx, "VCAP_ROOT="+v.root)
}

// PowerOff ends every process of the VM but this one: those whose environment
// names the VM, and the supervised ones.
func (v VM) PowerOff(ctx context.Context, supervised []int) error {
	ctx, cancel := context.WithTimeout(ctx, powerOffTime)
	defer cancel()
	err := process.EndAll(ctx, powerOffGrace, func() ([]int, error) {
		pids, err := v.Members(ctx)
		for _, pid := range supervised {
			if process.Lives(pid) && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		return pids, err
	})
	if err != nil {
		return fmt.Errorf("cannot power the VM off: %w", err)
	}
	return nil
}

// UsersOf returns the processes of the VM that have a folder, or a file below it,
// open or as their working directory, on systems that show it.
func (v VM) UsersOf(ctx context.Context, folder string) []int {
	pids, _ := v.Members(ctx)
	return slices.DeleteFunc(pids, func(pid int) bool { return process.Use(pid, folder) == "" })
}
