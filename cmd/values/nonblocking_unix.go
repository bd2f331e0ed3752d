//go:build unix

package values

import "syscall"

// nonBlocking opens a pipe without waiting for a process that writes to it.
const nonBlocking = syscall.O_NONBLOCK
