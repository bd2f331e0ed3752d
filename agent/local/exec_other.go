//go:build !unix

package local

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func endGroup(pid int, kill bool) { signalProcess(pid, kill) }

func signalProcess(pid int, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func lowerPriority(int) {}

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
