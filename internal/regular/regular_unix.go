//go:build unix

package regular

import "syscall"

const nonBlocking = syscall.O_NONBLOCK
