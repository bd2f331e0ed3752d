package records

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/artifact"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/instance"
	"bootstrap/templates"
)

// Cached is one entry of the cache, in the form of --json.
type Cached struct {
	Type    string     `json:"type"`
	Name    string     `json:"name"`
	Size    int64      `json:"size"` // bytes
	LastUse *time.Time `json:"last_use,omitempty"`
	UsedBy  []string   `json:"used_by,omitempty"` // installation ids
	Removed *bool      `json:"removed,omitempty"` // whether prune removed it; false with --dry-run

	remove func() error // nil: artifact removes the entry
}

func (i Cached) used() time.Time {
	if i.LastUse == nil {
		return time.Time{}
	}
	return *i.LastUse
}

func cachedEntry(e artifact.Entry) Cached {
	item := Cached{Type: string(e.Kind), Name: e.Name, Size: e.Size}
	if !e.LastUse.IsZero() {
		used := e.LastUse.UTC().Truncate(time.Second)
		item.LastUse = &used
	}
	return item
}

func cacheOf(home string) *artifact.Store { return artifact.Open(artifact.Config{Dir: home}) }

// listCached returns all entries of the cache, the last used one first.
func listCached(home string) ([]Cached, error) {
	entries, err := cacheOf(home).Entries()
	if err != nil {
		return nil, err
	}
	var list []Cached
	for _, e := range entries {
		list = append(list, cachedEntry(e))
	}
	packages, err := installation.List(filepath.Join(home, "cache", "compiled"), home)
	for _, p := range packages {
		used := p.LastUse.UTC().Truncate(time.Second)
		list = append(list, Cached{Type: "CPI package", Name: p.Name, Size: p.Size, LastUse: &used, UsedBy: p.UsedBy, remove: p.Remove})
	}
	rubies, rubyErr := templates.CompiledRubies(instance.RubyCache(home))
	for _, k := range rubies {
		used := k.LastUse.UTC().Truncate(time.Second)
		list = append(list, Cached{Type: "compiled Ruby", Name: k.Name, Size: k.Size, LastUse: &used, remove: k.Remove})
	}
	slices.SortStableFunc(list, func(a, b Cached) int { return b.used().Compare(a.used()) })
	return list, errors.Join(err, rubyErr)
}

// pruneCached removes the entries that were not used since a time, and returns them.
func pruneCached(home string, before time.Time, dry bool) ([]Cached, error) {
	old := func(list []Cached) []Cached {
		return slices.DeleteFunc(list, func(i Cached) bool { return len(i.UsedBy) > 0 || !i.used().Before(before) })
	}
	if dry {
		list, err := listCached(home)
		return old(list), err
	}
	s := cacheOf(home)
	done, err := s.Alone()
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := listCached(home)
	if err != nil {
		return nil, err
	}
	entries, err := s.Prune(before)
	var gone []Cached
	for _, e := range entries {
		gone = append(gone, cachedEntry(e))
	}
	for _, item := range old(list) {
		if item.remove == nil {
			continue
		}
		if failed := item.remove(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		gone = append(gone, item)
	}
	return gone, err
}
