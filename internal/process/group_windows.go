package process

import (
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup gives a command its own process group: Ctrl-C on the terminal does
// not reach it.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// OwnSession does nothing: Windows has no sessions.
func OwnSession(*exec.Cmd) {}

// TerminateGroup does nothing.
func TerminateGroup(int) {}

// KillGroup ends the process that would lead the group.
func KillGroup(id int) {
	if p, err := os.FindProcess(id); err == nil {
		_ = p.Kill()
	}
}

// LowerPriority does nothing.
func LowerPriority(int) {}

// ExitCode returns the exit code of a process that ended.
func ExitCode(state *os.ProcessState) int { return state.ExitCode() }
