// Package cgroup gives all processes of a VM one cgroup (version 2) of their own,
// which holds their memory, CPU and number, and counts what they use. systemd
// makes it where it runs: for a user, that is the only way to have one.
//
// A VM's cgroup has the limits. Its child InnerDir is the root of what the VM can
// see, and may be divided by it; the VM starts in the child FirstDir of that.
package cgroup

import (
	"path/filepath"
	"strings"
)

// Names of the folders in the cgroup of a VM.
const (
	InnerDir = "vm"
	FirstDir = "vm-processes" // by which the VM knows that it sees only its own
)

// Limits is what all processes of a VM may use together; zero: no limit.
type Limits struct {
	Memory uint64  // bytes
	CPU    float64 // cores
	PIDs   int     // processes and threads
}

// RefusedError says why this user's VMs can have no cgroup, or none with certain
// limits.
type RefusedError struct {
	Cause  string
	Remedy string // what a person can do about it; may be empty
}

func (e *RefusedError) Error() string { return e.Cause }

// prefix is the beginning of the names of cgroups of VMs.
const prefix = "bootstrap-"

// nameOf is the name of the cgroup of a VM that was started for the nth time by
// the same name.
func nameOf(vm, start string) string { return prefix + vm + "-" + start }

// IsOf reports whether the name of a cgroup is that of the VM's.
func IsOf(dir, vm string) bool { return strings.HasPrefix(filepath.Base(dir), prefix+vm+"-") }
