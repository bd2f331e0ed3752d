// Package shared keeps on this machine the links that deployments share with others: a
// file for each deployment in ~/.bosh/links, which is written when it is deployed. The
// files may have secrets: only their user may read and write them, and files that others
// may write to are not believed.
package shared

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bootstrap/deployment/links"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/owner"
	"bootstrap/internal/regular"
)

// Format is the format of an Entry.
const Format = 1

// Entry is what a deployment shares.
type Entry struct {
	Format     int    `json:"format"`
	Deployment string `json:"deployment"`
	// Source is the absolute path of the deployment's state, or of the folder of its
	// record: a deployment without it does not exist any more.
	Source string `json:"source"`
	// Store is the store of a team that has the state, in the form of --state, and the links
	// for all machines; empty: the state is a file.
	Store     string           `json:"store,omitempty"`
	Manifest  string           `json:"manifest"` // path, for people
	Written   time.Time        `json:"written"`
	Providers []links.Provider `json:"providers"`
	Secrets   []string         `json:"secrets,omitempty"` // texts in the properties that are never shown
}

// Links is the folder of the entries.
type Links struct {
	dir    string
	getenv func(string) string
}

// In returns the links that are kept in ~/.bosh, which is home.
func In(home string, getenv func(string) string) Links {
	return Links{dir: filepath.Join(home, "links"), getenv: getenv}
}

// path returns the path of the entry of a deployment with a source.
func (l Links) path(source string) string {
	sum := sha256.Sum256([]byte(source))
	return filepath.Join(l.dir, fmt.Sprintf("%x.json", sum[:8]))
}

// Has reports whether there is an entry of the source.
func (l Links) Has(source string) bool {
	_, err := os.Lstat(l.path(source))
	return err == nil
}

// Save writes the entry of a deployment, unless it has the same content. It removes those
// of the sources in replaced, which were the same deployment before.
func (l Links) Save(e Entry, replaced []string) error {
	e.Format = Format
	if old, err := l.read(l.path(e.Source)); err == nil && sameContent(*old, e) {
		return l.Remove(replaced...)
	}
	data, err := json.MarshalIndent(e, "", " ")
	if err == nil {
		err = atomicfile.MkdirAll(l.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.WriteMode(l.path(e.Source), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot record the links that the deployment %q shares: %w", e.Deployment, err)
	}
	return l.Remove(replaced...)
}

// Move changes the source of an entry, after the state was moved. If the new place is a
// store, the next deploy shares the links with other machines.
func (l Links) Move(from, to string) error {
	e, err := l.read(l.path(from))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the links that a deployment shares: %w", err)
	}
	e.Source, e.Store = to, ""
	return l.Save(*e, []string{from})
}

// sameContent reports whether two entries differ at most in the time.
func sameContent(a, b Entry) bool {
	a.Written = b.Written
	one, err := json.Marshal(a)
	two, other := json.Marshal(b)
	return err == nil && other == nil && bytes.Equal(one, two)
}

// Remove removes the entries of sources, if there are any.
func (l Links) Remove(sources ...string) error {
	for _, source := range sources {
		if err := os.Remove(l.path(source)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the links that a deployment shares: %w", err)
		}
	}
	return nil
}

// read reads an entry. It refuses files that others may write to.
func (l Links) read(path string) (*Entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	folder, err := os.Lstat(l.dir)
	if err != nil {
		return nil, err
	}
	if !folder.IsDir() {
		return nil, errors.New("its folder is a symbolic link: replace it with a folder")
	}
	if runtime.GOOS != "windows" && (info.Mode().Perm()&0o077 != 0 || folder.Mode().Perm()&0o022 != 0) {
		return nil, fmt.Errorf("other users may read or write it; its mode must be 0600: chmod 600 %s; chmod 700 %s", path, l.dir)
	}
	if who := owner.Foreign(path, l.getenv); who != "" {
		return nil, fmt.Errorf("it belongs to %s, and not to you: remove it if you do not trust them", who)
	}
	data, err := regular.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse reads the text of an entry.
func Parse(data []byte) (*Entry, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // numbers stay as the deployment has them
	e := &Entry{}
	if err := decoder.Decode(e); err != nil {
		return nil, err
	}
	if e.Format != Format {
		return nil, fmt.Errorf("it has the format %d, and this bootstrap reads format %d: deploy %s with this version", e.Format, Format, e.Deployment)
	}
	return e, nil
}

// Text returns the text of an entry for a store, without what only this machine knows.
func (e Entry) Text() ([]byte, error) {
	e.Format, e.Source, e.Manifest, e.Store = Format, "", "", ""
	return json.Marshal(e)
}

// SameText reports whether a text is that of an entry with the same content: it may have
// been written at another time.
func (e Entry) SameText(data []byte) bool {
	old, err := Parse(data)
	if err != nil {
		return false
	}
	e.Format, e.Source, e.Manifest, e.Store = Format, "", "", ""
	return sameContent(*old, e)
}

// Typed returns the links of a type that any deployment shares, for suggestions. It
// leaves out entries that cannot be read.
func (l Links) Typed(kind string) []links.Provider {
	files, _ := filepath.Glob(filepath.Join(l.dir, "*.json"))
	var all []links.Provider
	for _, path := range files {
		e, err := l.read(path)
		if err != nil {
			continue
		}
		if _, err := os.Stat(e.Source); err != nil {
			continue
		}
		for _, p := range e.Providers {
			if p.Type == kind {
				all = append(all, p)
			}
		}
	}
	return all
}

// Find returns the entry of the deployment with the name.
func (l Links) Find(name string) (*Entry, error) {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var found []*Entry
	var known, sources []string
	for _, path := range files {
		e, err := l.read(path)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed at this moment
			}
			return nil, fmt.Errorf("cannot read the links that deployments share, %s: %w", path, err)
		}
		if _, err := os.Stat(e.Source); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		known = append(known, e.Deployment)
		if e.Deployment == name {
			found, sources = append(found, e), append(sources, e.Source)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("several deployments on this machine are called %q and share links, with the states %s: describe the link with instances and properties", name, strings.Join(sources, " and "))
	}
	text := fmt.Sprintf("the deployment %q shares no links on this machine: deploy it here first, with provides: {NAME: {shared: true}} in the job that provides the link; if its state is in a store, name that with --links-from %s=ADDRESS, or in links_from of bootstrap.yml", name, name)
	if slices.Sort(known); len(known) > 0 {
		text += "; links are shared by " + strings.Join(slices.Compact(known), ", ")
	}
	return nil, errors.New(text)
}
