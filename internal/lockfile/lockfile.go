// Package lockfile locks files: lock files that contain the name of their holder, which
// the holder may remove, and files that are only locked.
package lockfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"bootstrap/internal/atomicfile"
)

// Lock is a lock on a file, which the kernel releases when its holder dies. On Windows
// it is on a byte far behind the content, because a locked region can be read and
// written only through the handle that has the lock.
type Lock struct {
	f    *os.File
	path string
	made bool
}

// New returns a lock on a file that is not removed: it is created with mode 0600, and has
// no content. If something else has that name, it is locked as it is; for a named pipe,
// New does not wait for a process that writes to it.
func New(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|nonBlocking))
}

// Try locks the file at path, and creates it with mode 0600 if it does not exist. The
// Lock is nil while another process holds it. A link is not followed, because it could
// lead to a file that must not be written to. Errors name the file.
//
// The holder of the lock may have removed the file after this process opened it. A lock
// on the removed file would not exclude other processes, so Try then locks the new file
// with that name. Thus the holder can remove a lock file at any time.
func Try(path string) (*Lock, error) {
	for try := 0; ; try++ {
		info, err := os.Lstat(path)
		if err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is %s, and not a file of this program: remove it", path, kind(info.Mode()))
		}
		f, openErr := os.OpenFile(path, os.O_CREATE|os.O_RDWR|noFollow, 0o600)
		if openErr != nil {
			return nil, openErr
		}
		got, lockErr := tryLock(f)
		if lockErr != nil || !got {
			_ = f.Close()
			if lockErr != nil {
				lockErr = &fs.PathError{Op: "lock", Path: path, Err: lockErr}
			}
			return nil, lockErr
		}
		l := &Lock{f: f, path: path, made: err != nil}
		if l.there() {
			if l.made {
				atomicfile.GiveToFolderOwner(path)
			}
			return l, nil
		}
		l.Close()
		if try == 100 {
			return nil, fmt.Errorf("another program removes %s each time it is locked", path)
		}
	}
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// there reports whether the locked file still has its name.
func (l *Lock) there() bool {
	locked, err := l.f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(l.path)
	return err == nil && os.SameFile(locked, named)
}

// Path returns the path of the file.
func (l *Lock) Path() string { return l.path }

// Made reports whether Try created the file.
func (l *Lock) Made() bool { return l.made }

// Write replaces the content of the locked file, even if another file now has its name.
func (l *Lock) Write(data []byte) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(data, 0)
	return err
}

// Close unlocks the file. A nil Lock is allowed.
func (l *Lock) Close() {
	if l != nil {
		_ = unlock(l.f)
		_ = l.f.Close()
	}
}

// Remove removes the file and unlocks it. Windows does not remove an open file.
func (l *Lock) Remove() {
	if l == nil {
		return
	}
	if l.there() {
		_ = os.Remove(l.path)
	}
	l.Close()
}

// Dir returns the folder of the file.
func (l *Lock) Dir() string { return filepath.Dir(l.path) }
