package cpi

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncTree flushes the file system of a folder to the disk.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
