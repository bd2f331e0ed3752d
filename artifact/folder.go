package artifact

import (
	"context"
	"crypto/sha256"
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
)

// knownFolder is the record of a release folder in the cache.
type knownFolder struct {
	index   *index // nil: the folder has to be read
	stamp   string
	settled bool
}

// knownFolder checks whether a folder is unchanged since its release was built with all
// needed packages.
func (s *Store) knownFolder(ctx context.Context, f File) (knownFolder, error) {
	var k knownFolder
	if f.Path == "" {
		return k, nil
	}
	if ix := s.reads.get(f.Path); ix != nil && ix.has(ix.needed(f.Needs)) {
		k.index = ix
		return k, nil
	}
	var err error
	if k.stamp, k.settled, err = releaseStamp(f.Path, f.Name); err != nil {
		return k, err
	}
	var rec cache.Record
	if cache.ReadJSON(s.dir.RecordPath(f.Path), &rec) == nil && rec.Path == f.Path && rec.Stamp == k.stamp {
		if ix, ok := s.loadIndex(ctx, rec.Release); ok && ix.has(ix.needed(f.Needs)) {
			k.index = ix
		}
	}
	return k, nil
}

// folderRelease builds a release from a folder in release layout, unless the cache
// has a release with the same contents.
func (s *Store) folderRelease(ctx context.Context, f File) (*index, []Unread, error) {
	known, err := s.knownFolder(ctx, f)
	if err != nil || known.index != nil {
		return known.index, nil, err
	}
	b, err := s.readReleaseFolder(ctx, f, false)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place(f), err)
	}
	needed := b.skeleton().needed(f.Needs)
	var unread []Unread
	if f.Needs.Try {
		unread, needed = b.unread(f, needed), nil
	} else if err := errors.Join(b.problems(needed), b.lackingError(place(f), needed)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place(f), err)
	}
	key := "folder-" + b.fingerprint
	ix, ok := s.loadIndex(ctx, key)
	if !ok || !ix.has(needed) {
		if ix, err = s.build(ctx, b, needed, ix); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", place(f), err)
		}
		if err := s.saveIndex(key, ix); err != nil {
			return nil, nil, err
		}
	}
	if known.settled {
		err = s.dir.Remember(cache.Record{Path: f.Path, Release: key, Stamp: known.stamp})
	}
	return ix, unread, err
}

// unread lists the needed packages that cannot be built, with reasons. Missing files are
// reported in the same way whether or not the store may download files.
func (b *releaseFolder) unread(f File, needed map[string]bool) []Unread {
	var list []Unread
	hopeless := b.hopeless(f, needed)
	if hopeless != nil {
		list = append(list, Unread{Why: hopeless})
	}
	for _, p := range b.packages {
		switch {
		case !needed[p.Name]:
		case p.err != nil:
			list = append(list, Unread{p.Name, fmt.Errorf("cannot read %s: %s: %w", f.Source, place(f), p.err), false})
		case len(p.lacks) > 0 && hopeless == nil:
			var names []string
			for _, bl := range p.lacks {
				names = append(names, bl.name)
			}
			list = append(list, Unread{p.Name, fmt.Errorf("%s is not on this machine yet", strings.Join(names, ", ")), true})
		}
	}
	return list
}

// hopeless returns why the missing files of the needed packages cannot even be requested;
// nil if they can be.
func (b *releaseFolder) hopeless(f File, needed map[string]bool) error {
	files := b.lacking(needed)
	switch {
	case len(files) == 0:
		return nil
	case b.storeErr != nil || slices.ContainsFunc(files, func(l lacking) bool { return l.id == "" }):
		return fmt.Errorf("cannot read %s: %s: %w", f.Source, place(f), b.lackingError(place(f), needed))
	case b.store.Ask == nil:
		return lackingError(place(f), files, notIn(b.store))
	}
	return nil
}

// releaseStamp returns the identity of all files from which a release is built; settled
// is set if every later change will change it.
func releaseStamp(dir, name string) (stamp string, settled bool, err error) {
	now := time.Now()
	settled = true
	each := func(_ string, info fs.FileInfo) error {
		settled = settled && cache.Identify(info).Settled(now)
		return nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "blobs checked %q\n", name) // before, blobs were not compared with their list
	for _, part := range releaseParts() {
		p, err := filepath.EvalSymlinks(filepath.Join(dir, part))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", false, err
		}
		stamp, err := cache.TreeStamp(p, each)
		if err != nil {
			return "", false, err
		}
		fmt.Fprintf(h, "%s %s\n", part, stamp)
		if part != "jobs" && part != "packages" {
			continue
		}
		// A folder of a job or package may be a link into a submodule.
		list, err := os.ReadDir(p)
		if err != nil {
			return "", false, err
		}
		for _, d := range list {
			to, err := filepath.EvalSymlinks(filepath.Join(p, d.Name()))
			if d.Type()&fs.ModeSymlink == 0 || err != nil {
				continue
			}
			stamp, err := cache.TreeStamp(to, each)
			if err != nil {
				return "", false, err
			}
			fmt.Fprintf(h, "%s/%s %s\n", part, d.Name(), stamp)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), settled, nil
}

func releaseParts() []string { return []string{"config", "jobs", "packages", "src", "blobs"} }
