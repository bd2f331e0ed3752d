//go:build unix

package machine

import (
	"os"
	"os/exec"
	"syscall"
)

// OwnGroup gives a command a process group of its own: signals of the terminal do
// not reach it, and one signal reaches the command and its children.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func endGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}

func signalProcess(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(pid, sig)
}

// LowerPriority makes a process give way to others.
func LowerPriority(pid int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, 5) }

// ExitCode returns the exit code of a process as a shell gives it: 128 and the
// signal for one that was killed.
func ExitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
