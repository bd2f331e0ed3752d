//go:build unix

package monit

import (
	"fmt"
	"os/exec"
	"syscall"
)

// openNonblock keeps a pipe in place of a pid file from blocking the open.
const openNonblock = syscall.O_NONBLOCK

// detach gives the command a session of its own: it outlives this process,
// and its group can be ended.
func detach(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

// reap collects a child without waiting; ended tells that it is no more, and
// err how it failed.
func reap(pid int) (ended bool, err error) {
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == syscall.EINTR || err == nil && got == 0:
		return false, nil
	case err != nil:
		return true, nil // somebody else collected it
	case ws.Signaled():
		return true, fmt.Errorf("ended by signal: %v", ws.Signal())
	case ws.ExitStatus() != 0:
		return true, fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return true, nil
}

func terminate(pid int)     { _ = syscall.Kill(pid, syscall.SIGTERM) }
func terminateGroup(id int) { _ = syscall.Kill(-id, syscall.SIGTERM) }
func killGroup(id int)      { _ = syscall.Kill(-id, syscall.SIGKILL) }
