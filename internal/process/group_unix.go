//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup gives a command its own process group: signals of the terminal do not
// reach it, and one signal reaches the command and its children.
func OwnGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// OwnSession gives a command its own session, and so its own group: it survives
// this process and has no terminal.
func OwnSession(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

// TerminateGroup asks the processes of a group to end.
func TerminateGroup(id int) { _ = syscall.Kill(-id, syscall.SIGTERM) }

// KillGroup ends the processes of a group.
func KillGroup(id int) { _ = syscall.Kill(-id, syscall.SIGKILL) }

// LowerPriority gives a process a lower priority.
func LowerPriority(pid int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, 5) }

// ExitCode returns the exit code of a process as a shell returns it: for a killed
// process, 128 plus the number of the signal.
func ExitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
