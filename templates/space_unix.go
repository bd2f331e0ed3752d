//go:build unix

package templates

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leastSpace is the address space that a process with the embedded Ruby needs.
const leastSpace = 2 << 30

// CheckSpace returns why a limit of the shell leaves too little address space for the
// embedded Ruby, in which case the program would crash; nil: there is enough.
func CheckSpace() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil || limit.Cur >= leastSpace {
		return nil
	}
	return fmt.Errorf("cannot start the embedded Ruby: a process may have %d MB of address space (ulimit -v), and it needs %d MB: run `ulimit -v unlimited`, or start bootstrap in a new shell",
		limit.Cur>>20, leastSpace>>20)
}
