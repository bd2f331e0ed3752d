package artifact

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/artifact/cache"
	"bootstrap/internal/digest"
	"bootstrap/internal/removal"
)

// EntryKind is the kind of an Entry.
type EntryKind string

// The kinds of entries.
const (
	EntryDownload EntryKind = "download"         // a release or stemcell that was fetched
	EntryBlob     EntryKind = "blob"             // a file of a release folder that is not in git
	EntryCheckout EntryKind = "git checkout"     // a commit of the release folder of a git+https:// URL
	EntryRelease  EntryKind = "release"          // a release, unpacked
	EntryCompiled EntryKind = "compiled package" // compiled on a VM
	EntryLeftover EntryKind = "leftover"         // files that no other entry refers to
)

// Entry is one thing that can be removed from the cache.
type Entry struct {
	Kind    EntryKind
	Name    string
	Size    int64     // bytes; files of several releases count for the latest used
	LastUse time.Time // zero for a leftover

	head  string   // removed first: without it the other files are a leftover
	files []string // files and folders that belong to the entry
}

// Entries lists what is in the cache, the latest used first.
func (s *Store) Entries() ([]Entry, error) {
	l := lister{s}
	var list []Entry
	for _, find := range []func() ([]Entry, error){l.releaseEntries, l.compiledEntries, l.downloadEntries, l.blobEntries, l.checkoutEntries} {
		found, err := find()
		if err != nil {
			return nil, fmt.Errorf("cannot list the cache: %w", err)
		}
		list = append(list, found...)
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return b.LastUse.Compare(a.LastUse) })
	named := map[string]bool{}
	for i := range list {
		for _, f := range list[i].files {
			if !named[f] {
				named[f] = true
				list[i].Size += diskSize(f)
			}
		}
	}
	left, err := l.leftovers(named)
	if err != nil {
		return nil, fmt.Errorf("cannot list the cache: %w", err)
	}
	return append(list, left...), nil
}

// Prune removes entries that were last used before a time, and leftovers of killed runs,
// from the cache. The caller must have locked the cache with Alone.
func (s *Store) Prune(before time.Time) ([]Entry, error) {
	list, err := s.Entries()
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, e := range list {
		if !e.LastUse.Before(before) {
			for _, f := range e.files {
				keep[f] = true
			}
		}
	}
	var gone []Entry
	for _, e := range list {
		if !e.LastUse.Before(before) {
			continue
		}
		if err := e.remove(keep); err != nil {
			return gone, fmt.Errorf("cannot remove %s %s from the cache: %w", e.Kind, e.Name, err)
		}
		gone = append(gone, e)
	}
	return gone, nil
}

func (e Entry) remove(keep map[string]bool) error {
	if e.head != "" {
		if err := os.Remove(e.head); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if e.Kind == EntryCheckout { // A kill leaves no checkout with only a part of its files.
		gone := e.files[0] + ".removed"
		if err := os.Rename(e.files[0], gone); err != nil {
			return err
		}
		e.files = []string{gone}
	}
	for _, f := range e.files {
		if keep[f] {
			continue
		}
		removal.Tree(f)
		if _, err := os.Lstat(f); err == nil {
			return fmt.Errorf("%s still exists", f)
		}
	}
	return nil
}

// dated is a small file that refers to others, with the time of its last use.
type dated struct {
	path    string
	lastUse time.Time
}

// lister lists the entries of a store by kind.
type lister struct{ store *Store }

// heads lists the files with that extension in a folder of the cache.
func (l lister) heads(folder, extension string) ([]dated, error) {
	list, err := readFolder(l.store.dir.Path(folder))
	var found []dated
	for _, d := range list {
		if filepath.Ext(d.Name()) != extension || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		if info, err := d.Info(); err == nil {
			found = append(found, dated{l.store.dir.Path(folder, d.Name()), info.ModTime()})
		}
	}
	return found, err
}

// readFolder lists a folder; a missing one is empty.
func readFolder(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

func (l lister) releaseEntries() ([]Entry, error) {
	heads, err := l.heads("releases", ".json")
	var list []Entry
	for _, h := range heads {
		var ix index
		if cache.ReadJSON(h.path, &ix) != nil {
			continue // a leftover
		}
		e := Entry{Kind: EntryRelease, Name: ix.Name + "/" + ix.Version, LastUse: h.lastUse, head: h.path, files: []string{h.path}}
		for _, p := range ix.Packages {
			if !p.packed() {
				continue
			}
			e.files = append(e.files, l.store.dir.ArchivePath(p.Archive.SHA256))
		}
		for _, j := range ix.Jobs {
			e.files = append(e.files, l.store.dir.JobPath(j.Archive))
		}
		list = append(list, e)
	}
	return list, err
}

func (l lister) compiledEntries() ([]Entry, error) {
	heads, err := l.heads("packages", ".json")
	var list []Entry
	for _, h := range heads {
		var ix compiledIndex
		if cache.ReadJSON(h.path, &ix) != nil {
			continue // a leftover
		}
		list = append(list, Entry{
			Kind: EntryCompiled, Name: fmt.Sprintf("%s/%s (%s)", ix.Name, ix.Fingerprint, ix.Stemcell), LastUse: h.lastUse,
			head: h.path, files: []string{h.path, l.store.compiledPath(ix.Archive.SHA256)},
		})
	}
	return list, err
}

// downloadEntries lists downloads of this program. create-env uses the same folder;
// files that only create-env has used are left alone.
func (l lister) downloadEntries() ([]Entry, error) {
	return l.fetched(EntryDownload, l.store.dir.Downloads())
}

// blobEntries lists the blobs of release folders.
func (l lister) blobEntries() ([]Entry, error) {
	return l.fetched(EntryBlob, l.store.dir.Path("blobs"))
}

// checkoutEntries lists the checkouts from git.
func (l lister) checkoutEntries() ([]Entry, error) {
	folder, err := readFolder(l.store.dir.Path(gitFolder))
	var list []Entry
	for _, d := range folder {
		info, err := d.Info()
		if _, wrong := hex.DecodeString(d.Name()); err != nil || wrong != nil || !d.IsDir() {
			continue // a leftover
		}
		list = append(list, Entry{Kind: EntryCheckout, Name: d.Name(), LastUse: info.ModTime(), files: []string{l.store.dir.Path(gitFolder, d.Name())}})
	}
	return list, err
}

// fetched lists the files that were downloaded to a folder.
func (l lister) fetched(kind EntryKind, dir string) ([]Entry, error) {
	folder, err := readFolder(dir)
	var list []Entry
	for _, d := range folder {
		path := filepath.Join(dir, d.Name())
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || strings.HasSuffix(path, ".part.json") {
			continue
		}
		e := Entry{Kind: kind, Name: d.Name(), LastUse: info.ModTime(), files: []string{path}}
		if strings.HasSuffix(path, ".part") {
			e.Name = "unfinished " + strings.TrimSuffix(d.Name(), ".part")
			e.files = append(e.files, path+".json")
		}
		head := l.store.dir.RecordPath(path)
		var rec cache.Record
		known := cache.ReadJSON(head, &rec) == nil && rec.Path == path
		if !known && !ourName(d.Name()) {
			continue
		}
		if known {
			e.head = head
			e.Name = cmp.Or(l.whatIs(rec), e.Name)
			if info, err := os.Stat(head); err == nil {
				e.LastUse = info.ModTime()
			}
		}
		list = append(list, e)
	}
	return list, err
}

// ourName reports whether a download is named by its digest.
func ourName(name string) bool {
	algorithm, digits, _ := strings.Cut(strings.TrimSuffix(name, ".part"), "-")
	_, err := hex.DecodeString(digits)
	return err == nil && digest.New(algorithm) != nil
}

// whatIs returns the name of the release or stemcell in a download, "" if the download
// was never read.
func (l lister) whatIs(rec cache.Record) string {
	if rec.Blob != "" {
		return rec.Blob
	}
	if st, err := parseStemcellMF([]byte(rec.Stemcell)); rec.Stemcell != "" && err == nil {
		return "stemcell " + st.Name + "/" + st.Version
	}
	var ix index
	if cache.ReadJSON(l.store.indexPath(rec.Digests["sha256"]), &ix) == nil {
		return "release " + ix.Name + "/" + ix.Version
	}
	return ""
}

// leftovers returns the files to which no entry refers, because a killed run left them or
// because they were replaced.
func (l lister) leftovers(named map[string]bool) ([]Entry, error) {
	e := Entry{Kind: EntryLeftover, Name: "files without an entry"}
	for _, folder := range []string{"archives", "jobs", "packages", "releases", gitFolder} {
		list, err := readFolder(l.store.dir.Path(folder))
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if path := l.store.dir.Path(folder, d.Name()); !named[path] {
				e.files = append(e.files, path)
				e.Size += diskSize(path)
			}
		}
	}
	if len(e.files) == 0 {
		return nil, nil
	}
	return []Entry{e}, nil
}

// diskSize returns the size of a file, or of all files in a folder.
func diskSize(path string) int64 {
	var size int64
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // files that cannot be read count as empty
	})
	return size
}
