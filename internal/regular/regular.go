// Package regular opens files that others can replace by something else.
package regular

import (
	"fmt"
	"io/fs"
	"os"
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
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
