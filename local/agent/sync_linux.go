package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFolder flushes the file system of dir to its device.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
