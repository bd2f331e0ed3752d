//go:build unix

package lockfile

import "syscall"

const (
	noFollow    = syscall.O_NOFOLLOW
	nonBlocking = syscall.O_NONBLOCK
)
