//go:build !linux && !darwin

package process

import (
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Identify finds a process that runs.
func Identify(pid int) (Identity, bool) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return Identity{}, false
	}
	ms, err := p.CreateTime()
	return Identity{PID: pid, start: ms}, err == nil
}

// Started returns when the process began by the machine's clock.
func (id Identity) Started() time.Time { return time.UnixMilli(id.start) }

func (id Identity) birth() string { return strconv.FormatInt(id.start, 10) }

// BootID is always empty: the starts of this machine cannot be told apart.
func BootID() string { return "" }
