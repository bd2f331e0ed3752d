// Package removal removes folders with all that is in them.
package removal

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Tree removes a folder and all that is in it, also folders without write
// permission, as scripts and a Go module cache leave them. A missing folder is
// not an error.
func Tree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// WalkDir calls back before it reads the folder.
			_ = os.Chmod(path, 0o700)
		}
		return nil // the second try says what cannot be removed
	})
	return os.RemoveAll(dir)
}
