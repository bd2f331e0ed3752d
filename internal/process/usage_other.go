//go:build !linux

package process

import (
	"context"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

const usageTimeout = 5 * time.Second

// Usages returns the usage of every process of the machine that the system
// reports.
func Usages() map[int]Usage {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	processes, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil
	}
	all := make(map[int]Usage, len(processes))
	for _, p := range processes {
		parent, err := p.PpidWithContext(ctx)
		if err != nil {
			continue // it has ended
		}
		u := Usage{Parent: int(parent)}
		if memory, err := p.MemoryInfoWithContext(ctx); err == nil {
			u.MemoryKB = int64(memory.RSS / 1024)
		}
		if times, err := p.TimesWithContext(ctx); err == nil {
			u.CPU = time.Duration((times.User + times.System) * float64(time.Second))
		}
		all[int(p.Pid)] = u
	}
	return all
}

// Family returns the usage of a process and of all its descendants. On this system, it
// finds them with all, which returns the usage of every process.
func Family(_ int, all func() map[int]Usage) map[int]Usage { return all() }
