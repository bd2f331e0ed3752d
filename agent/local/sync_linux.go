package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFolder has everything written to the file system of dir on the medium.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
