// Package regular opens files that others can replace by something that is not a regular
// file.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading. It refuses anything else at once: opening a
// named pipe would wait for a process that writes to it.
func Open(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refused(name, "it is not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ErrNoReader says that opening a named pipe for writing would wait for a reader.
var ErrNoReader = errors.New("no process reads this pipe")

// Append opens a file or a pipe for writing at its end, and makes a file if there is none.
// A named pipe that no process reads is ErrNoReader at once: opening it would wait for one.
func Append(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|nonBlocking, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNoReader}
	}
	return f, err
}

// limit is far above the size of every file that Read is for, in bytes.
const limit = 64 << 20

// Read reads a regular file of at most 64 MiB.
func Read(name string) ([]byte, error) { return ReadUpTo(name, limit) }

// ReadUpTo reads a regular file of at most most bytes.
func ReadUpTo(name string, most int64) ([]byte, error) {
	f, info, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	if size := info.Size(); size <= most {
		data.Grow(int(size) + bytes.MinRead)
		_, err = data.ReadFrom(io.LimitReader(f, most+1))
	}
	if err == nil && (info.Size() > most || int64(data.Len()) > most) { // the file may grow while it is read
		size := fmt.Sprintf("%d KiB", most>>10)
		if most >= 1<<20 {
			size = fmt.Sprintf("%d MiB", most>>20)
		}
		err = refused(name, "it is larger than "+size)
	}
	if err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// refused returns an error of the same kind as those of package os.
func refused(name, why string) error {
	return &fs.PathError{Op: "read", Path: name, Err: errors.New(why)}
}
