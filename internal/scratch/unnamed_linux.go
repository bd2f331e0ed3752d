package scratch

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createUnnamed opens a file that never has a name: open(2), O_TMPFILE. Its path is only
// for error messages.
func createUnnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, "(unnamed)")), nil
}
