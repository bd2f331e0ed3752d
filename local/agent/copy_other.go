//go:build !linux && !darwin

package agent

import (
	"errors"
	"io/fs"
	"os"
)

type fileID struct{}

func idOf(fs.FileInfo) (fileID, bool) { return fileID{}, false }

func makePipe(string, fs.FileMode) error {
	return errors.New("this operating system has no named pipes")
}

func eachExtent(_ *os.File, size int64, do func(start, length int64) error) error {
	if size == 0 {
		return nil
	}
	return do(0, size)
}

// allocated returns how many bytes a file takes on its disk.
func allocated(info fs.FileInfo) uint64 { return uint64(max(info.Size(), 0)) }

func own(string, fs.FileInfo) error { return nil }

func sameOwner(fs.FileInfo, fs.FileInfo) bool { return true }
