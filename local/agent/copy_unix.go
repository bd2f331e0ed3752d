//go:build linux || darwin

package agent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID is the same for all hard links of a file.
type fileID struct{ dev, ino uint64 }

// idOf returns the identity of a file, and whether it has several hard links.
func idOf(info fs.FileInfo) (fileID, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.IsDir() {
		return fileID{}, false
	}
	return fileID{uint64(stat.Dev), stat.Ino}, stat.Nlink > 1
}

// own gives a file to the owner and the group of another one.
func own(name string, like fs.FileInfo) error {
	stat, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil // only root can do that
	}
	return os.Lchown(name, int(stat.Uid), int(stat.Gid))
}

// sameOwner reports whether two files that root made have the same owner and group.
func sameOwner(a, b fs.FileInfo) bool {
	one, ok := a.Sys().(*syscall.Stat_t)
	other, also := b.Sys().(*syscall.Stat_t)
	return !ok || !also || os.Geteuid() != 0 || one.Uid == other.Uid && one.Gid == other.Gid
}

// allocated returns how many bytes a file takes on its disk.
func allocated(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(max(stat.Blocks, 0)) * 512
	}
	return uint64(max(info.Size(), 0))
}

func makePipe(name string, mode fs.FileMode) error {
	return unix.Mkfifo(name, uint32(mode.Perm()))
}

// eachExtent calls do for every part of the file with data.
func eachExtent(f *os.File, size int64, do func(start, length int64) error) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			return nil // only a hole follows
		case err != nil:
			start = at // the file system does not support holes
		}
		end := size
		if err == nil {
			if hole, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err == nil {
				end = min(hole, size)
			}
		}
		if start >= size {
			return nil
		}
		if end <= start {
			return io.ErrUnexpectedEOF
		}
		if err := do(start, end-start); err != nil {
			return err
		}
		at = end
	}
	return nil
}
