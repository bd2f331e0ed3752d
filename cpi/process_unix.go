//go:build !windows

package cpi

import (
	"errors"
	"os"
	"syscall"
)

func busy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }

// lockReply locks a file that is being written. The lock belongs to the open file, which
// the child inherits; so the lock ends when both have closed the file.
func lockReply(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// beingWritten reports whether a process holds the lock of lockReply.
func beingWritten(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
