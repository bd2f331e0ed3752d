//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// WriteOnly reports whether the path names an open file of this process that can
// only be written to, such as >(command) in a shell. Reading a pipe by that path
// would never end.
func WriteOnly(path string) bool {
	if dir := filepath.Dir(path); dir != "/dev/fd" && dir != "/proc/self/fd" {
		return false
	}
	fd, err := strconv.Atoi(filepath.Base(path))
	if err != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&(os.O_WRONLY|os.O_RDWR) == os.O_WRONLY
}
