//go:build unix

package monit

import (
	"fmt"
	"syscall"
)

// reap collects a child without waiting. err is the failure of a child that has ended.
func reap(pid int) (ended bool, err error) {
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == syscall.EINTR || err == nil && got == 0:
		return false, nil
	case err != nil:
		return true, nil // another part of the program has collected it
	case ws.Signaled():
		return true, fmt.Errorf("ended by signal: %v", ws.Signal())
	case ws.ExitStatus() != 0:
		return true, fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return true, nil
}
