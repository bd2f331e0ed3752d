// Package scratch makes folders and files that a command needs only while it runs.
// Folders of killed processes are removed by a later command; files have no name.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"bootstrap/internal/lockfile"
)

const (
	prefix   = "bootstrap-"
	lockName = ".lock"
	content  = "files"
)

// kinds are the names of the folders that Sweep removes.
func kinds() []string {
	return []string{"plan", "render", "validate", "doctor", "edit", "export", "compile", "monit"}
}

// Folder is a folder that only this user can read, and that exists while this process
// runs.
type Folder struct {
	Path string // where the files are
	top  string
	lock *lockfile.Lock
}

// New makes a folder in a parent; if parent is empty, in os.TempDir. kind is the name of
// the command for which it is made, one of kinds. New also removes
// folders of killed processes there.
func New(parent, kind string) (*Folder, error) {
	if !slices.Contains(kinds(), kind) {
		return nil, fmt.Errorf("folders of the kind %q would stay after a kill", kind)
	}
	shared := parent == ""
	if shared {
		parent = os.TempDir()
	}
	Sweep(parent)
	const attempts = 20
	for attempt := 1; ; attempt++ {
		f, err := newFolder(parent, kind)
		if attempt < attempts && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errSwept)) {
			continue // another process swept it before its lock was taken
		}
		if shared {
			err = Explained(err)
		}
		return f, err
	}
}

// Explained returns the error of making a temporary file or folder with what to do if it
// is about the folder of temporary files. err may be nil.
func Explained(err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // It names the file that does not exist.
	}
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return fmt.Errorf("cannot make temporary files in %s, which TMPDIR names: %w; set TMPDIR to a folder that you can write to, or unset it", dir, err)
	}
	return fmt.Errorf("cannot make temporary files in %s: %w; set TMPDIR to a folder that you can write to", os.TempDir(), err)
}

// errSwept says that another process is about to remove a new folder.
var errSwept = errors.New("another process removes the folder")

// newFolder makes a folder and locks it.
func newFolder(parent, kind string) (*Folder, error) {
	top, err := os.MkdirTemp(parent, prefix+kind+"-")
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: filepath.Join(top, content), top: top}
	f.lock, err = lockfile.Try(filepath.Join(top, lockName))
	switch {
	case err == nil && f.lock == nil:
		return nil, errSwept
	case err == nil:
		if err = os.Mkdir(f.Path, 0o700); err == nil {
			return f, nil
		}
	}
	_ = os.RemoveAll(top)
	if f.lock != nil {
		f.lock.Close()
	}
	return nil, err
}

// Remove removes the folder.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.Path)
	f.lock.Close() // closed before its file is removed, as Windows requires
	gone := os.RemoveAll(f.top)
	for range 20 {
		if gone == nil {
			break
		}
		gone = os.RemoveAll(f.top) // another process is removing it at the same time
	}
	return errors.Join(err, gone)
}

// Sweep removes the folders in the parents whose process has ended: nobody holds the lock
// in them. Folders of other users are not removed.
func Sweep(parents ...string) {
	for _, parent := range parents {
		for _, kind := range kinds() {
			found, _ := filepath.Glob(filepath.Join(escaped(parent), prefix+kind+"-*"))
			for _, dir := range found {
				sweep(dir)
			}
		}
	}
}

func sweep(dir string) {
	const young = time.Minute
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !own(info) {
		return
	}
	path := filepath.Join(dir, lockName)
	if _, err := os.Lstat(path); err != nil {
		if time.Since(info.ModTime()) > young { // the process of a younger folder may not have locked it yet
			_ = os.Remove(dir) // removes it only if it is empty
		}
		return
	}
	lock, err := lockfile.Try(path)
	if err != nil || lock == nil {
		return
	}
	_ = os.RemoveAll(dir)
	lock.Close()
}

// escaped returns a pattern that matches only the path.
func escaped(path string) string {
	var text []rune
	for _, r := range path {
		if (r == '*' || r == '?' || r == '[' || r == '\\') && filepath.Separator != '\\' {
			text = append(text, '\\')
		}
		text = append(text, r)
	}
	return string(text)
}
