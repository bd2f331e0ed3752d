// Package cached lists and removes what ~/.bosh keeps for later deploys.
package cached

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

// Item is one entry of the cache; its JSON is what --json prints.
type Item struct {
	Type    string     `json:"type"`
	Name    string     `json:"name"`
	Size    int64      `json:"size"` // bytes
	LastUse *time.Time `json:"last_use,omitempty"`
	UsedBy  []string   `json:"used_by,omitempty"` // installation ids
	Removed *bool      `json:"removed,omitempty"` // by prune; false with --dry-run

	remove func() error // nil: artifact removes the entry
}

func (i Item) used() time.Time {
	if i.LastUse == nil {
		return time.Time{}
	}
	return *i.LastUse
}

func entry(e artifact.Entry) Item {
	item := Item{Type: string(e.Kind), Name: e.Name, Size: e.Size}
	if !e.LastUse.IsZero() {
		used := e.LastUse.UTC().Truncate(time.Second)
		item.LastUse = &used
	}
	return item
}

func store(home string) *artifact.Store { return artifact.Open(artifact.Config{Dir: home}) }

// List returns all entries of the cache, the one used last first.
func List(home string) ([]Item, error) {
	entries, err := store(home).Entries()
	if err != nil {
		return nil, err
	}
	var list []Item
	for _, e := range entries {
		list = append(list, entry(e))
	}
	packages, err := installation.List(filepath.Join(home, "cache", "compiled"), home)
	for _, p := range packages {
		used := p.LastUse.UTC().Truncate(time.Second)
		list = append(list, Item{Type: "CPI package", Name: p.Name, Size: p.Size, LastUse: &used, UsedBy: p.UsedBy, remove: p.Remove})
	}
	rubies, rubyErr := templates.CompiledRubies(instance.RubyCache(home))
	for _, k := range rubies {
		used := k.LastUse.UTC().Truncate(time.Second)
		list = append(list, Item{Type: "compiled Ruby", Name: k.Name, Size: k.Size, LastUse: &used, remove: k.Remove})
	}
	slices.SortStableFunc(list, func(a, b Item) int { return b.used().Compare(a.used()) })
	return list, errors.Join(err, rubyErr)
}

// Prune removes the entries that were last used before a time, and returns them.
func Prune(home string, before time.Time, dry bool) ([]Item, error) {
	old := func(list []Item) []Item {
		return slices.DeleteFunc(list, func(i Item) bool { return len(i.UsedBy) > 0 || !i.used().Before(before) })
	}
	if dry {
		list, err := List(home)
		return old(list), err
	}
	s := store(home)
	done, err := s.Alone()
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := List(home)
	if err != nil {
		return nil, err
	}
	entries, err := s.Prune(before)
	var gone []Item
	for _, e := range entries {
		gone = append(gone, entry(e))
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
