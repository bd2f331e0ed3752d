// Package catalog finds the releases and stemcells that a manifest names only by name
// and version, in the sources that a person names, and keeps in a lock file what it
// found.
package catalog

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"bootstrap/internal/git"
	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
)

// Kind says whether an entry is a release or a stemcell.
type Kind int

// The kinds.
const (
	Release Kind = iota
	Stemcell
)

func (k Kind) String() string {
	if k == Stemcell {
		return "stemcell"
	}
	return "release"
}

// key returns the key of bootstrap.yml with the sources of the kind.
func (k Kind) key() string { return k.String() + "_sources" }

// Finder finds the releases and stemcells that a manifest names without a URL.
type Finder struct {
	Manifest string // path; - for standard input
	LockFile string // empty: LockPath
	// Releases and Stemcells are sources, NAME=SOURCE. The last one of a name wins, and *
	// is for all names that have none.
	Releases, Stemcells []string
	// Save writes the lock file.
	Save bool
	// Newer selects the names for which Find looks for newer versions, although the lock
	// file has them; nil: none.
	Newer func(name string) bool
	// Offline uses only the lock file, folders and the embedded releases and stemcells.
	Offline bool
	Getenv  func(string) string
	Dial    func(ctx context.Context) (proxy.Dial, error) // how servers are reached; the dial may be nil

	// Used are the entries that the manifest got, in its order; Old are those of the lock
	// file. Find fills them.
	Used []Used
	Old  []Entry

	// The constants, except in tests.
	maxArchive int64
	maxSilence time.Duration
}

// Used is an entry that a manifest got.
type Used struct {
	Entry
	Locked bool // it is from the lock file
}

// want is something that a manifest wants.
type want struct {
	kind     Kind
	label    string // name of a release; operating system or name of a stemcell
	os       bool   // label is an operating system
	version  string
	source   string // for the lock file: paths start from the manifest's folder
	place    string // the same for this process
	specific bool   // the source is for this name alone
	item     document.Value
	sha1     string // of the manifest
	direct   bool   // a person has named the place for this stemcell alone
}

func (w want) String() string { return fmt.Sprintf("%s %s", w.kind, w.label) }

// lockFile returns the path of the lock file; empty: there is none.
func (f *Finder) lockFile() string {
	if f.LockFile != "" {
		return f.LockFile
	}
	return LockPath(f.Manifest)
}

// Find gives each release and stemcell of a manifest that has no URL, or has a source of
// its own, the URL and digest of the lock file or else of its source. It reports what
// cannot be found in the document. look is that of document.Options.
func (f *Finder) Find(ctx context.Context, top document.Value, look bool) error {
	wants := f.wants(top)
	if !look {
		for _, w := range wants {
			w.item.PutPending("url")
		}
	}
	if len(wants) == 0 || !look {
		return nil
	}
	lock, err := ReadLock(f.lockFile())
	if err != nil {
		return err
	}
	f.Old, f.Used = lock.entries, nil
	found, errs := make([]Used, len(wants)), make([]error, len(wants))
	var g errgroup.Group
	g.SetLimit(4)
	for i, w := range wants {
		newer := f.Newer != nil && f.Newer(w.label)
		if e, ok := lock.find(w); ok && !newer {
			found[i] = Used{e, true}
			continue
		}
		g.Go(guard.Func(func() error {
			found[i].Entry, errs[i] = f.lookUp(ctx, w)
			return nil
		}))
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var entries []Entry
	failed := false
	for i, w := range wants {
		if errs[i] != nil {
			failed = true
			w.item.Fail("cannot find the %s, version %s: %v", w, w.version, errs[i])
			w.item.PutPending("url") // it is not missing
			continue
		}
		f.put(w, found[i])
		f.Used, entries = append(f.Used, found[i]), append(entries, found[i].Entry)
	}
	if path := f.lockFile(); f.Save && !failed && path != "" {
		return save(path, f.Manifest, entries)
	}
	return nil
}

// FindStemcell finds the stemcell of an operating system and version in a source, without
// the lock file. The URL of a file has an absolute path.
func (f *Finder) FindStemcell(ctx context.Context, source, os, version string) (Entry, error) {
	w := want{kind: Stemcell, label: os, os: true, version: version, specific: true, direct: true}
	w.place = f.expanded(source, w)
	if !isRemote(w.place) && !strings.HasPrefix(w.place, "embedded:") && !strings.HasPrefix(w.place, "~") {
		path, err := filepath.Abs(strings.TrimPrefix(w.place, "file://"))
		if err != nil {
			return Entry{}, fmt.Errorf("cannot find the absolute path of %s: %v", w.place, err)
		}
		w.place = path
	}
	w.source = w.place
	found, err := f.lookUp(ctx, w)
	if err != nil {
		return found, fmt.Errorf("cannot find the %s, version %s: %w", w, version, err)
	}
	return found, nil
}

// put writes the URL and the digest that were found into the document.
func (f *Finder) put(w want, found Used) {
	pos := found.pos
	if !found.Locked {
		pos = document.Position{File: w.kind.key(), Line: 1, Column: 1}
	}
	w.item.Put("url", found.URL, pos)
	if w.sha1 != "" && found.SHA1 != "" && w.version == found.Version {
		return // the manifest's digest is for this version, wherever it is
	}
	w.item.Put("sha1", found.SHA1, pos)
}

// wants lists the releases and stemcells for which a manifest needs sources.
func (f *Finder) wants(top document.Value) []want {
	var list []want
	add := func(w want, sources []string) {
		given := !w.item.Get("url").IsNull()
		place, specific, ok := pick(sources, w.label)
		if u, isGit, err := git.Parse(w.item.Get("url").Scalar()); isGit && err == nil && !specific {
			if u.IsCommit() {
				return
			}
			place, specific, ok = u.String(), true, true // the commit is looked up
		}
		if !ok || given && !specific || w.item.Get("url").Pending() {
			return
		}
		for _, key := range []string{"version", "name", "os"} {
			if part := w.item.Get(key); part.Pending() {
				if strings.Contains(part.Scalar(), "((") { // a variable without a value, which is reported
					w.item.PutPending("url")
				}
				return
			}
		}
		w.specific = specific || strings.Contains(place, "{name}") || strings.Contains(place, "{os}")
		w.place = f.expanded(place, w)
		w.source, w.sha1 = f.portable(w.place), w.item.Get("sha1").Scalar()
		list = append(list, w)
	}
	for _, item := range items(top.Get("releases")) {
		w := want{kind: Release, label: item.Get("name").Scalar(), version: item.Get("version").Scalar(), item: item}
		if w.version == "" {
			w.version = latest
		}
		add(w, f.Releases)
	}
	for _, item := range items(top.Get("stemcells")) {
		w := want{kind: Stemcell, label: item.Get("os").Scalar(), os: true, version: item.Get("version").Scalar(), item: item}
		if w.label == "" {
			w.label, w.os = item.Get("name").Scalar(), false
		}
		if w.version == "" {
			w.version = latest
		}
		add(w, f.Stemcells)
	}
	return list
}

// items returns the maps of a list, without reporting what is wrong with it.
func items(list document.Value) []document.Value {
	if !list.IsList() {
		return nil
	}
	var maps []document.Value
	for _, item := range list.Items() {
		if item.IsMap() {
			maps = append(maps, item)
		}
	}
	return maps
}

// pick returns the source for a name: the last one of the name, or else of all names.
func pick(sources []string, name string) (place string, specific, ok bool) {
	for _, s := range sources {
		of, at, _ := strings.Cut(s, "=")
		switch {
		case of == name:
			place, specific, ok = at, true, true
		case of == "*" && !specific:
			place, ok = at, true
		}
	}
	return place, specific, ok
}

// expanded fills name, operating system and version into a source.
func (f *Finder) expanded(place string, w want) string {
	esc := func(s string) string { return s }
	if strings.Contains(place, "://") {
		esc = url.PathEscape
	}
	return strings.NewReplacer("{name}", esc(w.label), "{os}", esc(w.label), "{version}", esc(w.version)).Replace(place)
}

// portable returns a source as the lock file has it: relative paths start from the
// manifest's folder.
func (f *Finder) portable(place string) string {
	if isRemote(place) || strings.HasPrefix(place, "git+") || strings.HasPrefix(place, "embedded:") || strings.HasPrefix(place, "~") {
		return place
	}
	path := strings.TrimPrefix(place, "file://")
	if filepath.IsAbs(path) {
		return place
	}
	dir := "."
	if f.Manifest != "-" {
		dir = filepath.Dir(f.Manifest)
	}
	from, errFrom := filepath.Abs(dir)
	to, errTo := filepath.Abs(path)
	if errFrom != nil || errTo != nil {
		return place
	}
	relative, err := filepath.Rel(from, to)
	if err != nil {
		return place
	}
	return filepath.ToSlash(relative)
}

func isRemote(place string) bool {
	return strings.HasPrefix(place, "https://") || strings.HasPrefix(place, "http://")
}

// Names returns the names of the releases and stemcells that are looked for in sources.
func (f *Finder) Names(top document.Value) []string {
	var list []string
	for _, w := range f.wants(top) {
		list = append(list, w.label)
	}
	return list
}
