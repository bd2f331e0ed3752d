//go:build unix

package lockfile

import (
	"errors"
	"os"
	"syscall"
)

const (
	noFollow    = syscall.O_NOFOLLOW
	nonBlocking = syscall.O_NONBLOCK
)

// tryLock locks the file; got is false while another handle has it locked.
func tryLock(f *os.File) (got bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
