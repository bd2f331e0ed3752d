package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/removal"
)

// Cached is a package that was compiled for a CPI.
type Cached struct {
	Name    string
	Dir     string
	Size    int64 // bytes
	LastUse time.Time
	// UsedBy contains the ids of the installed CPIs that need the package,
	// directly or through another package, and would not work without it.
	UsedBy []string
}

// List lists the packages in the folder cache, the one used last first, with the
// installed CPIs in home that need them.
func List(cache, home string) ([]Cached, error) {
	folders, err := os.ReadDir(cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the compiled packages of CPIs: %w", err)
	}
	users, err := users(cache, home)
	if err != nil {
		return nil, fmt.Errorf("cannot list the installations of CPIs: %w", err)
	}
	var list []Cached
	for _, d := range folders {
		info, err := d.Info()
		if err != nil || !d.IsDir() {
			continue
		}
		c := Cached{Name: d.Name(), Dir: filepath.Join(cache, d.Name()), LastUse: info.ModTime(), UsedBy: users[d.Name()]}
		if i := strings.LastIndexByte(c.Name, '-'); i > 0 {
			c.Name = c.Name[:i] // the rest is the key
		}
		_ = filepath.WalkDir(c.Dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					c.Size += info.Size()
				}
			}
			return nil // unreadable files have no size
		})
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Cached) int { return b.LastUse.Compare(a.LastUse) })
	return list, nil
}

// Remove removes a package from the cache. The caller must make sure that no CPI needs it
// and that none is being installed.
func (c Cached) Remove() error {
	if err := errors.Join(removal.Tree(c.Dir), removal.Tree(c.Dir+".lock")); err != nil {
		return fmt.Errorf("cannot remove the compiled package %s: %w", c.Name, err)
	}
	return nil
}

// users returns the ids of the installed CPIs that use each entry of the cache,
// by the entry's folder.
func users(cache, home string) (map[string][]string, error) {
	links, err := filepath.Glob(filepath.Join(home, "*", "packages", "*"))
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	var add func(link, installation string)
	add = func(link, installation string) {
		id := entryOf(cache, link)
		if id == "" || slices.Contains(found[id], installation) {
			return
		}
		found[id] = append(found[id], installation)
		inner, _ := filepath.Glob(filepath.Join(cache, id, "packages", "*"))
		for _, dep := range inner {
			add(dep, installation)
		}
	}
	for _, link := range links {
		add(link, filepath.Base(filepath.Dir(filepath.Dir(link))))
	}
	return found, nil
}

// entryOf returns the folder of the cache to which a link leads; "" if it leads
// elsewhere.
func entryOf(cache, link string) string {
	// The files are compared, because a home may have several paths.
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return ""
	}
	if cache, err = filepath.EvalSymlinks(cache); err != nil {
		return ""
	}
	rel, err := filepath.Rel(cache, target)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	id, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	return id
}
