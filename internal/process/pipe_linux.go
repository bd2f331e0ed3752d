package process

import "syscall"

// IsPipe reports whether a descriptor is a pipe, as a process passes it to one that it
// starts. Otherwise it may be one that the runtime of Go uses.
func IsPipe(fd int) bool {
	var stat syscall.Stat_t
	return syscall.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFIFO
}
