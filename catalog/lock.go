package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// LockPath returns the path of the lock file of a manifest: cluster.lock.yml beside
// cluster.yml; empty for standard input.
func LockPath(manifest string) string {
	if manifest == "-" || manifest == "" {
		return ""
	}
	return strings.TrimSuffix(manifest, filepath.Ext(manifest)) + ".lock.yml"
}

// Entry is a release or a stemcell that was found.
type Entry struct {
	Kind   Kind
	Name   string // of the release; of a stemcell, its operating system or its name, as the manifest says
	Wanted string // the version that the manifest wants
	Source string // where it was looked for
	// Version, URL and SHA1 describe the found file. SHA1 is a digest as a manifest has it;
	// empty for a folder, for an embedded file, and for a commit, which is in the URL.
	Version, URL, SHA1 string

	pos document.Position // in the lock file
}

// Pinned reports whether the entry is written to the lock file. Folders and embedded files
// are not: they are used as they are.
func (e Entry) Pinned() bool { return e.SHA1 != "" || strings.HasPrefix(e.URL, "git+") }

// String returns the name and the version, for people.
func (e Entry) String() string { return strings.TrimSpace(e.Name + " " + e.Version) }

// field is a key of an entry in a lock file.
type field struct {
	key   string
	value *string
}

// fields returns the keys of an entry in their order.
func (e *Entry) fields() []field {
	return []field{{"name", &e.Name}, {"wanted", &e.Wanted}, {"source", &e.Source}, {"version", &e.Version}, {"url", &e.URL}, {"sha1", &e.SHA1}}
}

// Lock is the content of a lock file.
type Lock struct {
	entries []Entry
}

// LockError says what is wrong with a lock file.
type LockError struct {
	Path string
	Err  error
}

// errNoFile means that the path of the lock file names a folder or a pipe, which must not
// be deleted.
var errNoFile = errors.New("it is not a regular file")

func (e *LockError) Error() string {
	if errors.Is(e.Err, errNoFile) {
		return fmt.Sprintf("cannot use the lock file %s: %v; name another file with --lock-file FILE", e.Path, e.Err)
	}
	return fmt.Sprintf("cannot use the lock file %s: %v; delete it, and `bootstrap update-lock MANIFEST` writes it again, with the newest versions", e.Path, e.Err)
}

func (e *LockError) ExitCode() failure.Code { return failure.Manifest }

func (e *LockError) Unwrap() error { return e.Err }

// maxLock limits a lock file, in bytes.
const maxLock = 1 << 20

// ReadLock reads a lock file. One that does not exist is empty; path may be empty, too.
// The error is a *LockError.
func ReadLock(path string) (*Lock, error) {
	lock := &Lock{}
	if path == "" {
		return lock, nil
	}
	data, err := readLock(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lock, nil
	case err != nil:
		return nil, &LockError{path, document.Cause(err)}
	}
	if err := document.Check(path, data, lock.read); err != nil {
		return nil, &LockError{path, err}
	}
	return lock, nil
}

// readLock returns the bytes of a lock file. It waits for no writer of a named pipe, and
// holds no more than the limit in memory.
func readLock(path string) ([]byte, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
			err = errNoFile
		}
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err == nil && len(data) > maxLock {
		err = errors.New("it is larger than the limit of 1 MiB")
	}
	return data, err
}

// lists are the keys of a lock file.
func lists() map[string]Kind { return map[string]Kind{"releases": Release, "stemcells": Stemcell} }

func (l *Lock) read(top document.Value) {
	if top.IsNull() || !top.Map() {
		return
	}
	for key, list := range top.All() {
		kind, known := lists()[key]
		if !known {
			list.FailKey("unknown key of a lock file")
			continue
		}
		for _, item := range list.Items() {
			if !item.Map() {
				continue
			}
			e := Entry{Kind: kind, pos: item.Position()}
			for _, f := range e.fields() {
				place, to := item.Get(f.key), f.value
				if f.key == "sha1" && place.IsNull() && strings.HasPrefix(e.URL, "git+") {
					continue
				}
				text, ok := place.Required("a text")
				if ok && !place.IsText() {
					place.Fail("must be a text in quotes")
				}
				*to = text
			}
			l.entries = append(l.entries, e)
		}
	}
}

// find returns the entry with the name, the version and the source of a wanted release or
// stemcell.
func (l *Lock) find(w want) (Entry, bool) {
	i := slices.IndexFunc(l.entries, func(e Entry) bool {
		return e.Kind == w.kind && e.Name == w.label && e.Wanted == w.version && e.Source == w.source
	})
	if i < 0 {
		return Entry{}, false
	}
	return l.entries[i], true
}

// text returns the content of a lock file with these entries.
func text(manifest string, entries []Entry) []byte {
	var b bytes.Buffer
	base := filepath.Base(manifest)
	fmt.Fprintf(&b, "# Where bootstrap found the releases and stemcells of %s. Commit this file.\n", base)
	fmt.Fprintf(&b, "# To look for newer versions: bootstrap update-lock %s\n", base)
	for _, key := range []string{"releases", "stemcells"} {
		for i, e := range slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Kind != lists()[key] || !e.Pinned() }) {
			if i == 0 {
				fmt.Fprintf(&b, "%s:\n", key)
			}
			mark := "-"
			for _, f := range e.fields() {
				if *f.value == "" {
					continue
				}
				fmt.Fprintf(&b, "%s %s: %s\n", mark, f.key, strconv.QuoteToASCII(*f.value))
				mark = " "
			}
		}
	}
	return b.Bytes()
}

// save writes a lock file, unless it has this content already or is not needed.
func save(path, manifest string, entries []Entry) error {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Wanted, b.Wanted))
	})
	entries = slices.CompactFunc(entries, func(a, b Entry) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Wanted == b.Wanted })
	data := text(manifest, entries)
	old, err := regular.Read(path)
	if err == nil && bytes.Equal(old, data) || err != nil && !slices.ContainsFunc(entries, Entry.Pinned) {
		return nil
	}
	if err := atomicfile.Update(path, data); err != nil {
		return fmt.Errorf("cannot write the lock file %s: %w", path, err)
	}
	return nil
}
