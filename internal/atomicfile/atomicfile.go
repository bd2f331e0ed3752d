// Package atomicfile writes files atomically, and keeps owner, group and mode of
// existing files.
package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/regular"
	"bootstrap/internal/wait"
)

// Write replaces the content of the file at path atomically and durably. A new file gets
// mode 0600; an existing one keeps its owner, its group and, as described at Kept, its
// mode. The temporary file is in the same folder; if the process is killed, the file
// stays there until RemoveStale removes it. Devices, pipes and files below /dev are
// written in place.
func Write(path string, data []byte) error {
	if InPlace(path) {
		return overwrite(path, data)
	}
	return Replace(path, data)
}

// Replace is like Write, but replaces whatever is at path by a new file. It is for files
// of the program: for these, opening a pipe would wait for a process that reads from it.
func Replace(path string, data []byte) error { return ReplaceBy(path, text(data)) }

// ReplaceBy is like Replace, but the function write writes the content. If it returns an
// error, the file stays as it is.
func ReplaceBy(path string, write func(io.Writer) error) error {
	return replace(path, write, func(temp *os.File) error { return dress(temp, path) })
}

// Update is like Write, but an existing file keeps all of its mode: for files without
// secrets that others may read.
func Update(path string, data []byte) error {
	if InPlace(path) {
		return overwrite(path, data)
	}
	return replace(path, text(data), func(temp *os.File) error {
		old, err := os.Lstat(path)
		if err != nil || !old.Mode().IsRegular() {
			giveToOwnerOf(filepath.Dir(path), temp)
			return nil
		}
		mode := old.Mode().Perm()
		if !giveLike(temp, old) {
			mode &^= 0o070 &^ (mode << 3) // another group gets what others have
		}
		return temp.Chmod(mode)
	})
}

// WriteMode is like Write, but the caller chooses the mode, also of an existing
// file: for files of an embedded VM.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	return replace(path, text(data), func(temp *os.File) error { return temp.Chmod(mode) })
}

// text returns a function that writes data.
func text(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func replace(path string, write func(io.Writer) error, dress func(temp *os.File) error) error {
	dir, base := filepath.Dir(path), filepath.Base(path)
	temp, err := os.CreateTemp(dir, "."+base+"*")
	if err != nil {
		return err
	}
	err = write(temp)
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

// InPlace reports whether the file at path must not be replaced by another one:
// a device, a pipe, a socket, or an open file of a process, which /dev and /proc
// name. /dev/shm has files like any other folder.
func InPlace(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return false
	}
	if !info.Mode().IsRegular() {
		return true
	}
	abs, err := filepath.Abs(path)
	below := func(dir string) bool { return strings.HasPrefix(abs, dir+"/") }
	return err == nil && (below("/dev") && !below("/dev/shm") || below("/proc"))
}

// readerTime is how long Open waits for a process that reads a named pipe.
const readerTime = 10 * time.Second

// Open opens a file for writing for which InPlace is true. A named pipe that no process
// reads within ten seconds is an error.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		return nil, fmt.Errorf("%s is a socket, which cannot be written to like a file", path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readerTime)
	defer cancel()
	for {
		f, err := regular.Append(path)
		if !errors.Is(err, regular.ErrNoReader) || wait.For(ctx, 50*time.Millisecond) != nil {
			return f, err
		}
	}
}

func overwrite(path string, data []byte) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// dress gives a file that will be renamed to path its owner, group and mode.
func dress(temp *os.File, path string) error {
	old, err := os.Lstat(path)
	if err != nil || !old.Mode().IsRegular() {
		giveToOwnerOf(filepath.Dir(path), temp)
		return nil
	}
	mode := Kept(old.Mode())
	if !giveLike(temp, old) {
		mode &^= 0o070 // the bit would apply to another group
	}
	if mode == 0o600 {
		return nil // the mode is already right
	}
	return temp.Chmod(mode)
}

// Kept returns the mode that a file gets when it is rewritten: only owner and group may
// have permissions. The group's permissions are kept, with one exception: if others may
// read the file and the group may not write it, then the umask has set them, and not a
// person.
func Kept(mode fs.FileMode) fs.FileMode {
	if mode&0o007 != 0 && mode&0o020 == 0 {
		return mode & 0o700
	}
	return mode & 0o770
}

// GiveToFolderOwner gives a file or folder that root has just created to the
// owner of its parent folder; for other users it does nothing.
func GiveToFolderOwner(path string) {
	if f, err := openOwn(path); err == nil {
		giveToOwnerOf(filepath.Dir(path), f)
		_ = f.Close()
	}
}

// MkdirAll creates a folder and its parents, like os.MkdirAll. Folders that root
// creates are given to the owner of the folder in which they are created.
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
	return os.MkdirAll(path, mode) // another process has created it, or the next call returns the reason
}

// Match gives the file or folder at path the group and the mode of the file at like, so
// that the same users may write to both. If this process is root, it also gives it the
// owner. Errors are ignored: path may belong to another user.
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

// SyncDir makes new names in a folder durable. Some systems cannot sync folders (Windows,
// some network file systems); this is not an error.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// RemoveStale removes temporary files that interrupted writes of the file at path left
// behind. The caller must hold the lock of the file.
func RemoveStale(path string) {
	dir, base := filepath.Dir(path), filepath.Base(path)
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
