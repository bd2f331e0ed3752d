package cpi

import (
	"strconv"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB

// birthOf tells when a process began, in nanoseconds; a zombie is none any
// more.
func birthOf(pid int) (string, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p.Proc.P_pid != int32(pid) || p.Proc.P_stat == stateZombie {
		return "", false
	}
	return strconv.FormatInt(p.Proc.P_starttime.Nano(), 10), true
}
