package cpi

import (
	"strconv"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB

// birthOf returns when a running process began, in nanoseconds; a zombie does
// not run.
func birthOf(pid int) (string, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p.Proc.P_pid != int32(pid) || p.Proc.P_stat == stateZombie {
		return "", false
	}
	return strconv.FormatInt(p.Proc.P_starttime.Nano(), 10), true
}
