//go:build unix

package removal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mostOpen is how many folders are open at the same time, however deep they are nested.
const mostOpen = 64

// batch is how many names of a folder are read at once.
const batch = 1000

// mostPasses is how often a folder is read again that is not empty after all its names
// were removed: another process may write to it.
const mostPasses = 8

// Tree removes a folder with its contents. It also removes folders without write
// permission, which scripts and Go module caches leave; files that nobody may change
// (chattr +i), if this user may change that; and folders that are nested deeper than the
// length of a path or the number of open files allows. It follows no link. It never
// enters a file system that is mounted in the folder, which is an error. A missing folder
// is not an error.
func Tree(dir string) error {
	dir = filepath.Clean(dir)
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return At(parent, filepath.Base(dir))
}

// At is Tree for a name in an open folder.
func At(parent *os.File, name string) error {
	t := &tree{top: filepath.Join(parent.Name(), name), parent: int(parent.Fd())}
	defer t.close()
	return t.remove(name)
}

// folder is a folder on the path to the folder that is being emptied.
type folder struct {
	name   string
	file   *os.File // nil: closed, because too many are open
	dev    uint64
	ino    uint64
	inside []string // folders in it that must still be removed
	passes int
}

// tree removes one tree.
type tree struct {
	top    string
	parent int // descriptor of the folder that contains the tree
	way    []*folder
}

func (t *tree) close() {
	for _, f := range t.way {
		if f.file != nil {
			_ = f.file.Close()
		}
	}
}

// fails returns an error with the name of the file that cannot be removed. It shortens
// the path of a deeply nested file.
func (t *tree) fails(op, name string, err error) error {
	path := t.top
	for i, f := range t.way {
		if i > 0 {
			path += "/" + f.name
		}
	}
	if len(t.way) > 0 {
		path += "/" + name
	}
	if most := 4096; len(path) > most {
		path = path[:most] + "..."
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// at returns the descriptor of the folder that is being emptied.
func (t *tree) at() int {
	if len(t.way) == 0 {
		return t.parent
	}
	return int(t.way[len(t.way)-1].file.Fd())
}

// remove removes one name, and everything below it.
func (t *tree) remove(name string) error {
	isFolder, err := t.unlink(name)
	if err != nil || !isFolder {
		return err
	}
	if err := t.enter(name); err != nil {
		return err
	}
	for len(t.way) > 0 {
		f := t.way[len(t.way)-1]
		if n := len(f.inside); n > 0 {
			next := f.inside[n-1]
			f.inside = f.inside[:n-1]
			if err := t.enter(next); err != nil {
				return err
			}
			continue
		}
		if err := t.leave(); err != nil {
			return err
		}
	}
	return nil
}

// unlink removes a name that is not a folder; a missing name is not an error.
func (t *tree) unlink(name string) (isFolder bool, err error) {
	try := func() error { return ignoringSignals(func() error { return unix.Unlinkat(t.at(), name, 0) }) }
	if err = try(); err == nil || err == unix.ENOENT {
		return false, nil
	}
	var stat unix.Stat_t
	switch failed := unix.Fstatat(t.at(), name, &stat, unix.AT_SYMLINK_NOFOLLOW); {
	case failed == unix.ENOENT:
		return false, nil
	case failed == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return true, nil
	}
	t.release(name)
	if err = try(); err == nil || err == unix.ENOENT {
		return false, nil
	}
	return false, t.fails("remove", name, mounted(err))
}

// release changes modes and attributes of the folder and the name so that this user may
// remove the name, if that is possible.
func (t *tree) release(name string) {
	if len(t.way) > 0 { // never the folder around the tree
		_ = unix.Fchmod(t.at(), 0o700)
		allowChanges(t.at())
	}
	var stat unix.Stat_t
	if unix.Fstatat(t.at(), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return // a pipe or a device is not opened
	}
	fd, err := unix.Openat(t.at(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	allowChanges(fd)
	_ = unix.Close(fd)
}

// enter opens a folder in the current one and removes everything in it except folders.
func (t *tree) enter(name string) error {
	fd, err := openFolder(t.at(), name)
	if err == unix.EACCES {
		if err = makeReadable(t.at(), name); err == nil {
			fd, err = openFolder(t.at(), name)
		}
	}
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return t.fails("open", name, mounted(err))
	}
	f := &folder{name: name, file: os.NewFile(uintptr(fd), name)}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		_ = f.file.Close()
		return t.fails("open", name, err)
	}
	f.dev, f.ino = uint64(stat.Dev), stat.Ino // #nosec G115 -- only compared
	if n := len(t.way); n >= mostOpen && t.way[n-mostOpen].file != nil {
		_ = t.way[n-mostOpen].file.Close()
		t.way[n-mostOpen].file = nil
	}
	t.way = append(t.way, f)
	return t.empty(f)
}

// empty removes all in a folder but folders, which it lists.
func (t *tree) empty(f *folder) error {
	f.passes++
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return t.fails("read", "", err)
	}
	for {
		names, err := f.file.Readdirnames(batch)
		for _, name := range names {
			isFolder, err := t.unlink(name)
			if err != nil {
				return err
			}
			if isFolder {
				f.inside = append(f.inside, name)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return t.fails("read", "", err)
		}
	}
}

// leave removes the current folder, which is empty, and makes the folder above the
// current one.
func (t *tree) leave() error {
	n := len(t.way) - 1
	f := t.way[n]
	if n > 0 && t.way[n-1].file == nil {
		if err := t.goUp(f, t.way[n-1]); err != nil {
			return err
		}
	}
	t.way = t.way[:n]
	try := func() error {
		return ignoringSignals(func() error { return unix.Unlinkat(t.at(), f.name, unix.AT_REMOVEDIR) })
	}
	err := try()
	if err == unix.EACCES || err == unix.EPERM {
		t.release(f.name)
		err = try()
	}
	switch {
	case err == nil || err == unix.ENOENT:
		return f.file.Close()
	case (err == unix.ENOTEMPTY || err == unix.EEXIST) && f.passes < mostPasses:
		t.way = append(t.way, f)
		return t.empty(f)
	}
	_ = f.file.Close()
	return t.fails("remove", f.name, mounted(err))
}

// goUp opens the folder above again, if it is still the same one.
func (t *tree) goUp(f, above *folder) error {
	fd, err := unix.Openat(int(f.file.Fd()), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return t.fails("open", "..", err)
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && (uint64(stat.Dev) != above.dev || stat.Ino != above.ino) { // #nosec G115 -- only compared
		err = errors.New("another process has moved the folder during the removal")
	}
	if err != nil {
		_ = unix.Close(fd)
		return t.fails("open", "..", err)
	}
	above.file = os.NewFile(uintptr(fd), above.name)
	return nil
}

func ignoringSignals(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// mounted explains an error of a name at which something is mounted.
func mounted(err error) error {
	if err == unix.EXDEV || err == unix.EBUSY {
		return fmt.Errorf("something is mounted there: umount it: %w", err)
	}
	return err
}

// openSameDevice opens a folder of the file system that its parent is on.
func openSameDevice(parent int, name string) (int, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var above, own unix.Stat_t
	if err = unix.Fstat(parent, &above); err == nil {
		err = unix.Fstat(fd, &own)
	}
	if err == nil && above.Dev != own.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
