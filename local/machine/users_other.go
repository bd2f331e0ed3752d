//go:build !linux

package machine

import "os/exec"

// ManyUsers reports that only Linux has VMs with users.
func (v VM) ManyUsers() bool { return false }

// GiveToVcap does nothing: only Linux has VMs with users.
func (v VM) GiveToVcap(string) error { return nil }

func (v VM) asRoot(*exec.Cmd) {}
