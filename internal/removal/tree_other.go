//go:build !unix

package removal

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Tree removes a folder with its contents, including folders without write
// permission, which scripts and Go module caches leave. A missing folder is not
// an error.
func Tree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// WalkDir calls the function before it reads the folder.
			_ = os.Chmod(path, 0o700)
		}
		return nil // the second attempt returns the error
	})
	return os.RemoveAll(dir)
}
