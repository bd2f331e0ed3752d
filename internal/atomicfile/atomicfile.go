// Package atomicfile writes files whole or not at all, and leaves owner, group
// and mode of those that exist as they are.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write makes data the content of the file at path: all of it or none, and
// lasting when it returns. A new file has mode 0600; one that exists keeps its
// owner, its group and, as Kept says, its mode. The temporary file is beside it,
// not in a folder that others share; a process that is killed leaves it there,
// for DropCut. A device, a pipe and what is below /dev are written in place.
func Write(path string, data []byte) error {
	if InPlace(path) {
		return overwrite(path, data)
	}
	return replace(path, data, func(temp *os.File) error { return dress(temp, path) })
}

// WriteMode is Write for files whose mode their writer decides, also where one
// exists: those of an embedded VM.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, func(temp *os.File) error { return temp.Chmod(mode) })
}

func replace(path string, data []byte, dress func(temp *os.File) error) error {
	dir, base := filepath.Split(path)
	temp, err := os.CreateTemp(dir, "."+base+"*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = dress(temp)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return err
	}
	_ = SyncDir(dir)
	return nil
}

// InPlace reports whether what is at path must not be replaced by another file: a
// device, a pipe, a socket, or an open file of this process below /dev.
func InPlace(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return false
	}
	if !info.Mode().IsRegular() {
		return true
	}
	abs, err := filepath.Abs(path)
	return err == nil && (strings.HasPrefix(abs, "/dev/") || strings.HasPrefix(abs, "/proc/"))
}

// Open opens what is InPlace for writing. Opening a pipe waits for its reader.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		return nil, fmt.Errorf("%s is a socket, which cannot be written to like a file", path)
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
}

func overwrite(path string, data []byte) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// dress gives a file that is about to be renamed to path the owner, group and
// mode that it shall have there.
func dress(temp *os.File, path string) error {
	old, err := os.Lstat(path)
	if err != nil || !old.Mode().IsRegular() {
		giveToOwnerOf(filepath.Dir(path), temp)
		return nil
	}
	mode := Kept(old.Mode())
	if !giveLike(temp, old) {
		mode &^= 0o070 // it would be another group's
	}
	if mode == 0o600 {
		return nil // it has that
	}
	return temp.Chmod(mode)
}

// Kept is the mode that a file has after a rewrite: nobody but owner and group
// may do anything with it. A group keeps what it was given on purpose: where
// others may read and the group may not write, that was the umask.
func Kept(mode fs.FileMode) fs.FileMode {
	if mode&0o007 != 0 && mode&0o020 == 0 {
		return mode & 0o700
	}
	return mode & 0o770
}

// GiveToFolderOwner gives a file or folder that root has just made to the owner
// of the folder that it is in; for other users it does nothing.
func GiveToFolderOwner(path string) {
	if f, err := openOwn(path); err == nil {
		giveToOwnerOf(filepath.Dir(path), f)
		_ = f.Close()
	}
}

// MkdirAll makes a folder and those above it, as os.MkdirAll does. What root
// makes goes to the owner of the folder that it is made in.
func MkdirAll(path string, mode fs.FileMode) error {
	if _, err := os.Stat(path); err == nil {
		return os.MkdirAll(path, mode)
	}
	if above := filepath.Dir(path); above != path {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, mode)
	if err == nil {
		GiveToFolderOwner(path)
		return nil
	}
	return os.MkdirAll(path, mode) // somebody else has made it, or it tells why not
}

// Match gives the file or folder at path the group and the mode of the file at
// like, and as root its owner, so that whoever may write the one may write the
// other. It does what it can: path may be another user's.
func Match(path, like string) {
	want, err := os.Lstat(like)
	if err != nil || !want.Mode().IsRegular() {
		return
	}
	f, err := openOwn(path)
	if err != nil {
		return
	}
	defer f.Close()
	have, err := f.Stat()
	if err != nil {
		return
	}
	mode := Kept(want.Mode())&0o060 | 0o600
	if have.IsDir() {
		mode |= mode & 0o440 >> 2
	}
	if !giveLike(f, want) {
		mode &^= 0o070
	}
	if have.Mode().Perm() != mode {
		_ = f.Chmod(mode)
	}
}

// SyncDir makes new names in a folder last. Where a folder cannot be synced
// (Windows, some network file systems) they are there all the same.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// DropCut removes the temporary files of writes of the file at path that were
// cut. The caller holds the lock that keeps others from writing it.
func DropCut(path string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "."+base)
		if ok && e.Type().IsRegular() && number != "" && strings.Trim(number, "0123456789") == "" {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
