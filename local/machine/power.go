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

// Time between TERM and KILL for the processes of a VM, and the limit for ending all of
// them.
const (
	powerOffGrace = 5 * time.Second
	powerOffTime  = 4 * powerOffGrace
)

// Members returns the processes of the VM, except this one.
func (v VM) Members(ctx context.Context) ([]int, error) {
	if v.inside {
		// The first process ends last, and by itself.
		return slices.DeleteFunc(slices.Sorted(maps.Keys(process.Usages())), func(pid int) bool {
			return pid == 1 || pid == os.Getpid() || !process.Lives(pid)
		}), nil
	}
	return process.WithVariable(ctx, "VCAP_ROOT="+v.root)
}

// PowerOff ends every process of the VM except this one: processes with the VM's
// variable, and supervised ones.
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

// UsersOf returns the processes of the VM that use a folder, or a file below it, as open
// file or working directory. Some systems do not report all of them.
func (v VM) UsersOf(ctx context.Context, folder string) []int {
	pids, _ := v.Members(ctx)
	return slices.DeleteFunc(pids, func(pid int) bool { return process.Use(pid, folder) == "" })
}
