// Package scratch makes folders for what a command needs only while it runs. Those of
// processes that were killed are removed by a later command.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"bootstrap/internal/lockfile"
)

const (
	prefix   = "bootstrap-"
	lockName = ".lock"
	content  = "files"
)

// kinds are the names of the folders that Sweep removes.
func kinds() []string { return []string{"plan", "render", "validate", "doctor", "edit"} }

// Folder is a folder that only this user can read, for the life of this process.
type Folder struct {
	Path string // where the files are
	top  string
	lock *lockfile.Lock
}

// New makes a folder in a parent, os.TempDir if that is empty, for what kind names: plan,
// render, validate or doctor. It also removes those of killed processes there.
func New(parent, kind string) (*Folder, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	Sweep(parent)
	top, err := os.MkdirTemp(parent, prefix+kind+"-")
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: filepath.Join(top, content), top: top}
	if f.lock, err = lockfile.Try(filepath.Join(top, lockName)); err == nil {
		err = os.Mkdir(f.Path, 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// Remove removes the folder.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.Path)
	f.lock.Close() // before its file is removed, which Windows wants
	return errors.Join(err, os.RemoveAll(f.top))
}

// Sweep removes the folders in the parents whose process has ended: the lock in them is
// free. Those of other users stay.
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
		if time.Since(info.ModTime()) > young { // else its process may be about to lock it
			_ = os.Remove(dir) // only if it is empty
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

// escaped returns a path as a pattern that matches only it.
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
