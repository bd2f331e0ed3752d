package values

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"bootstrap/manifest/document"
)

// Paths is a list of files, whose names may contain commas.
type Paths []string

// Type returns the word for the value in help texts.
func (v *Paths) Type() string { return "FILE" }

// String returns the default for help texts.
func (v *Paths) String() string { return "" }

// Set adds a file. A ~ that the shell has not replaced, as in --flag=~/file, is the home
// folder.
func (v *Paths) Set(path string) error {
	expanded, err := document.ExpandHome(path)
	if err != nil || path == "" {
		return Refusal(fmt.Sprintf("cannot use the file %q", path))
	}
	*v = append(*v, expanded)
	return nil
}

// maxCA limits the size of the CA file that a flag names.
const maxCA = 1 << 20

// File is the content of the file that the flag names.
type File string

// Type returns the word for the value in help texts.
func (v *File) Type() string { return "FILE" }

// String returns the default for help texts.
func (v *File) String() string { return "" }

// Set reads the file.
func (v *File) Set(path string) error {
	data, err := ReadFile(path, maxCA, PipeTime)
	*v = File(data)
	return err
}

// PipeTime limits the time for reading a pipe that a flag names.
const PipeTime = time.Minute

// ReadFile reads a file of at most max bytes. If it is a pipe, it waits at
// most wait for the end; a pipe that no process writes to is empty.
func ReadFile(path string, max int64, wait time.Duration) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the callers name the file
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	_ = f.SetReadDeadline(time.Now().Add(wait)) // only pipes have deadlines
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it is a pipe that did not end within %v", wait)
	}
	if err == nil && int64(len(data)) > max {
		err = fmt.Errorf("it is larger than the limit of %d MiB", max>>20)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
