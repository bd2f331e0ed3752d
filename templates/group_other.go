//go:build !unix

package templates

import "os/exec"

// ownGroup does nothing: there are no process groups.
func ownGroup(*exec.Cmd) {}

// killGroup kills a started command.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
