//go:build !unix

package machine

import (
	"os"
	"os/exec"
)

// OwnGroup does nothing: there are no process groups.
func OwnGroup(*exec.Cmd) {}

func endGroup(pid int, kill bool) { signalProcess(pid, kill) }

func signalProcess(pid int, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// LowerPriority does nothing.
func LowerPriority(int) {}

// ExitCode returns the exit code of a process that ended.
func ExitCode(state *os.ProcessState) int { return state.ExitCode() }
