package cgroup

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CountsByNamespace reports whether the kernel counts a user's processes separately in
// each user namespace: then RLIMIT_NPROC limits a single VM.
func CountsByNamespace() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); n < 2 {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}
