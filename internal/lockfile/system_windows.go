package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// On this operating system, named pipes, and links as on Unix, are not files.
const (
	noFollow    = 0
	nonBlocking = 0
)

// lockedByte is the only byte that is locked, at 2^62: no file has that size, and a
// locked byte may lie behind the end of the file.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// tryLock locks the file; got is false while another handle has it locked.
func tryLock(f *os.File) (got bool, err error) {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}
