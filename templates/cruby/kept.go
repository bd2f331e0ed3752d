package cruby

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/lockfile"
)

// Kept is the compiled code of one image of Ruby, stored by Open.
type Kept struct {
	Name    string
	Size    int64 // bytes
	LastUse time.Time

	dir string // the folder of all images
}

// List returns what Open has stored below dir.
func List(dir string) ([]Kept, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the compiled Rubies: %w", err)
	}
	var list []Kept
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), "ruby-") {
			continue
		}
		k := Kept{Name: e.Name(), LastUse: info.ModTime(), dir: dir}
		_ = filepath.WalkDir(filepath.Join(dir, e.Name()), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					k.Size += info.Size()
				}
			}
			return nil // unreadable files have no size
		})
		list = append(list, k)
	}
	return list, nil
}

// Remove removes the code, unless another process compiles or loads it now.
func (k Kept) Remove() error {
	lock := lockfile.New(filepath.Join(k.dir, lockName(k.Name)))
	got, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("cannot remove the compiled Ruby %s: %w", k.Name, err)
	}
	if !got {
		return fmt.Errorf("cannot remove the compiled Ruby %s: another run is compiling or loading it", k.Name)
	}
	defer func() { _ = lock.Close() }()
	return os.RemoveAll(filepath.Join(k.dir, k.Name))
}
