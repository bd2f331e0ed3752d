// Package cgroup gives all processes of a VM one cgroup (version 2) of their own, which
// limits their memory, CPU and number, and counts what they use. If the machine has
// systemd, systemd makes the cgroup: a user has no other way.
//
// A VM's cgroup has the limits. Its child InnerDir is the root of the VM's view, and the
// VM may divide it; the VM starts in the child FirstDir of that.
package cgroup

import (
	"path/filepath"
	"strings"
)

// Names of the folders in the cgroup of a VM.
const (
	InnerDir = "vm"
	FirstDir = "vm-processes" // if the VM sees it, the VM sees only its own cgroups
)

// Limits are the limits for all processes of a VM together; zero: no limit.
type Limits struct {
	Memory uint64  // bytes
	CPU    float64 // cores
	PIDs   int     // processes and threads
}

// RefusedError says why this user's VMs cannot have a cgroup, or why certain limits
// cannot be enforced.
type RefusedError struct {
	Cause  string
	Remedy string // what a person can do about it; may be empty
}

func (e *RefusedError) Error() string { return e.Cause }

// prefix is the prefix of the names of VMs' cgroups.
const prefix = "bootstrap-"

// nameOf returns the name of a VM's cgroup at its nth start.
func nameOf(vm, start string) string { return prefix + vm + "-" + start }

// IsOf reports whether the name is that of a cgroup of the VM.
func IsOf(dir, vm string) bool { return strings.HasPrefix(filepath.Base(dir), prefix+vm+"-") }
