package local

import (
	"syscall"

	"bootstrap/agent/local/machine"
)

func alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) == nil && machine.Lives(pid) }
