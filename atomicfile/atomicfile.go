// Package atomicfile writes files whole or not at all, for their owner alone.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Write makes data the content of the file at path, mode 0600: all of it or
// none, and lasting when it returns. The temporary file is beside it, not in a
// folder that others share; a process that is killed leaves it there, for
// DropCut.
func Write(path string, data []byte) (err error) {
	dir, base := filepath.Split(path)
	temp, err := os.CreateTemp(dir, "."+base+"*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
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
	syncDir(dir)
	return nil
}

// syncDir makes a rename last. Where a folder cannot be synced (Windows, some
// network file systems) the write is no less whole.
func syncDir(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
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
