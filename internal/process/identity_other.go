//go:build !linux && !darwin

package process

import (
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// look finds a running process.
func look(pid int) (id Identity, ended, ok bool) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return Identity{}, false, false
	}
	ms, err := p.CreateTime()
	return Identity{PID: pid, start: ms}, false, err == nil
}

// Started returns when the process started, by the machine's clock.
func (id Identity) Started() time.Time { return time.UnixMilli(id.start) }

func (id Identity) birth() string { return strconv.FormatInt(id.start, 10) }

// BootID returns an empty text: this operating system does not identify its
// boots.
func BootID() string { return "" }

// Realm returns an empty text, as BootID.
func Realm() string { return "" }
