//go:build !linux

package agent

import (
	"io/fs"
	"os"
	"path/filepath"
)

// syncFolder flushes every file below dir to its device.
func syncFolder(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil // a file without read permission
		}
		defer f.Close()
		return f.Sync()
	})
}
