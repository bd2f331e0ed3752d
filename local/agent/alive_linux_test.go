package agent

import (
	"syscall"

	"bootstrap/internal/process"
)

func alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) == nil && process.Lives(pid) }
