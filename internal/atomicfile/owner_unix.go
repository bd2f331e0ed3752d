//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openOwn opens a file or folder to change its owner or mode. It does not follow
// links: the owner of the folder could lead root to another file.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() {
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || s.Nlink != 1 {
			err = errors.New("it has other hard links, or is not a regular file")
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func owners(info fs.FileInfo) (uid, gid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}

// giveLike gives f the owner and the group of old, if this user may do that. It
// reports whether the group is the same.
func giveLike(f *os.File, old fs.FileInfo) bool {
	now, err := f.Stat()
	if err != nil {
		return false
	}
	uid, gid, ok := owners(old)
	haveUID, haveGID, known := owners(now)
	if !ok || !known {
		return false
	}
	if os.Geteuid() == 0 && uid != haveUID {
		return f.Chown(uid, gid) == nil
	}
	return gid == haveGID || f.Chown(-1, gid) == nil
}

// giveToOwnerOf gives f to the owner of the folder if this process runs as root.
func giveToOwnerOf(folder string, f *os.File) {
	if os.Geteuid() != 0 {
		return
	}
	if info, err := os.Stat(folder); err == nil {
		if uid, gid, ok := owners(info); ok && uid != 0 {
			_ = f.Chown(uid, gid)
		}
	}
}
