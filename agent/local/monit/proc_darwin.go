package monit

import (
	"time"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB

// identify returns the identity of a process that has not ended; a zombie has.
func identify(pid int) (identity, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p.Proc.P_pid != int32(pid) || p.Proc.P_stat == stateZombie {
		return identity{}, false
	}
	return identity{pid: pid, start: p.Proc.P_starttime.Nano()}, true
}

// started returns when a process began by the machine's clock.
func (id identity) started() time.Time { return time.Unix(0, id.start) }

func machineMemoryKB() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n / 1024)
}
