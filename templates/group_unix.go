//go:build unix

package templates

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd start in its own process group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup kills a started command and its children, before Wait was called.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
