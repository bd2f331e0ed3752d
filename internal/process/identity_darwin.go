package process

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB

// look finds a process; ended: it is a zombie.
func look(pid int) (id Identity, ended, ok bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p.Proc.P_pid != int32(pid) {
		return Identity{}, false, false
	}
	return Identity{PID: pid, start: p.Proc.P_starttime.Nano()}, p.Proc.P_stat == stateZombie, true
}

// Started returns when the process started, by the machine's clock.
func (id Identity) Started() time.Time { return time.Unix(0, id.start) }

func (id Identity) birth() string { return strconv.FormatInt(id.start, 10) }

// BootID returns a text that changes with each start of this machine.
func BootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// Realm returns a text that is equal for two processes only if they see the same process
// ids.
func Realm() string { return BootID() }
