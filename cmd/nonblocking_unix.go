//go:build unix

package cmd

import "syscall"

// nonBlocking opens a pipe that nobody writes to without waiting for somebody.
const nonBlocking = syscall.O_NONBLOCK
