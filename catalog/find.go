package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/git"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// lookUp finds a release or stemcell in its source.
func (f *Finder) lookUp(ctx context.Context, w want) (Entry, error) {
	e := Entry{Kind: w.kind, Name: w.label, Wanted: w.version, Source: w.source}
	if strings.HasPrefix(w.place, "embedded:") {
		e.URL = w.place
		return e, nil
	}
	if u, isGit, err := git.Parse(w.place); isGit {
		if err == nil {
			err = f.lookUpCommit(ctx, w, u, &e)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", w.place, err)
		}
		return e, err
	}
	if !isRemote(w.place) {
		return e, f.lookUpHere(ctx, w, &e)
	}
	if f.Offline {
		return e, fmt.Errorf("%s was not asked, because this command connects to no server, and the lock file does not have it; `bootstrap update-lock MANIFEST` asks", publicURL(w.place))
	}
	err := f.lookUpRemote(ctx, w, &e)
	if err != nil {
		err = fmt.Errorf("%s: %w", publicURL(w.place), err)
	}
	return e, err
}

// lookUpCommit finds the commit of a repository: of the given ref, of the tag of the wanted
// version, or of the default branch.
func (f *Finder) lookUpCommit(ctx context.Context, w want, u git.URL, e *Entry) error {
	refs := []string{u.Ref}
	if u.Ref == "" && w.version != latest {
		refs = []string{"v" + w.version, w.version}
	}
	switch {
	case w.kind == Stemcell:
		return errors.New("a stemcell cannot come from a git repository; name a file, a folder, an index or a URL")
	case u.IsCommit():
		e.Version, e.URL = u.Ref[:12], u.String()
		return nil
	case f.Offline:
		return errors.New("it was not asked, because this command connects to no server, and the lock file does not have it; `bootstrap update-lock MANIFEST` asks")
	}
	id, of, err := u.Commit(ctx, refs...)
	if err != nil {
		return err
	}
	u.Ref, e.Version = id, of
	if of == "HEAD" {
		e.Version = id[:12]
	}
	e.URL = u.String()
	return nil
}

// lookUpHere finds it in a file or folder of this machine.
func (f *Finder) lookUpHere(ctx context.Context, w want, e *Entry) error {
	path, err := document.ExpandHome(strings.TrimPrefix(w.place, "file://"))
	if err != nil {
		return fmt.Errorf("%s: cannot find the home directory: %w", w.place, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.direct:
		return fmt.Errorf("there is no file or folder %s", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file or folder %s, which %s names", w.place, w.kind.key())
	case err != nil:
		return fmt.Errorf("%s: %w", w.place, document.Cause(err))
	case !info.IsDir() && isIndex(path):
		text, _, err := regular.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", w.place, document.Cause(err))
		}
		defer text.Close()
		if err := f.fromIndex(w, io.LimitReader(text, maxIndex+1), path, e); err != nil {
			return fmt.Errorf("%s: %w", w.place, err)
		}
		if !isRemote(e.URL) {
			return f.pin(ctx, w, e, strings.TrimPrefix(e.URL, "file://"))
		}
		return nil
	case !info.IsDir():
		if err := identify(ctx, w, path, e); err != nil {
			return fmt.Errorf("%s: %w", w.place, err)
		}
		return f.pin(ctx, w, e, path)
	}
	kind := artifact.KindRelease
	if w.kind == Stemcell {
		kind = artifact.KindStemcell
	}
	if source, err := artifact.IsFolder(path, kind); err != nil || source {
		e.URL = f.fileURL(path, w)
		return err
	}
	return f.fromFolder(ctx, w, path, e)
}

// identify checks that an archive is the wanted release or stemcell, and records its
// version.
func identify(ctx context.Context, w want, path string, e *Entry) error {
	id, err := artifact.Identify(ctx, path)
	if err != nil {
		return err
	}
	if !w.is(id) || !fits(w.version, id.Version) {
		return fmt.Errorf("it is the %s %s %s", id.Kind, cmp.Or(id.OS, id.Name), id.Version)
	}
	e.Version = id.Version
	return nil
}

// is reports whether an archive is the release or the stemcell by its name.
func (w want) is(id artifact.Identity) bool {
	switch {
	case w.kind == Release:
		return id.Kind == artifact.KindRelease && id.Name == w.label
	case w.os:
		return id.Kind == artifact.KindStemcell && id.OS == w.label
	}
	return id.Kind == artifact.KindStemcell && id.Name == w.label
}

// fromFolder finds an archive in a folder.
func (f *Finder) fromFolder(ctx context.Context, w want, dir string, e *Entry) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", w.place, document.Cause(err))
	}
	best, versions := "", []string{}
	for _, item := range list {
		if !isArchive(item.Name()) || item.IsDir() {
			continue
		}
		path := filepath.Join(dir, item.Name())
		id, err := artifact.Identify(ctx, path)
		switch {
		case errors.Is(err, artifact.ErrUnknownArchive):
			continue
		case err != nil:
			return fmt.Errorf("%s: cannot read %s: %w", w.place, item.Name(), err)
		case !w.is(id):
			continue
		}
		versions = append(versions, id.Version)
		if fits(w.version, id.Version) && (best == "" || compareVersions(id.Version, e.Version) > 0) {
			best, e.Version = path, id.Version
		}
	}
	if best == "" {
		return fmt.Errorf("%s %w", w.place, lacks(w, versions))
	}
	return f.pin(ctx, w, e, best)
}

// lacks says that a source does not have the version, and which ones it has.
func lacks(w want, versions []string) error {
	if len(versions) == 0 {
		return fmt.Errorf("has no %s", w)
	}
	slices.SortFunc(versions, func(a, b string) int { return compareVersions(b, a) })
	versions = slices.Compact(versions)
	const most = 5
	more := ""
	if len(versions) > most {
		more = fmt.Sprintf(" and %d older ones", len(versions)-most)
		versions = versions[:most]
	}
	return fmt.Errorf("has only %s%s", strings.Join(versions, ", "), more)
}

// pin notes a file of this machine with its digest.
func (f *Finder) pin(ctx context.Context, w want, e *Entry, path string) error {
	e.URL = f.fileURL(path, w)
	if e.SHA1 != "" {
		return nil
	}
	file, _, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, document.Cause(err))
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &cancelable{ctx, file}); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, document.Cause(err))
	}
	e.SHA1 = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return nil
}

// fileURL returns the URL of a file of this machine for the manifest.
func (f *Finder) fileURL(path string, w want) string {
	if strings.HasPrefix(w.place, "~") {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	return "file://" + f.portable(path)
}

// cancelable is a reader that ends with a context.
type cancelable struct {
	ctx context.Context
	io.Reader
}

func (c *cancelable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(p)
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".tar.gz")
}

func isIndex(name string) bool {
	switch filepath.Ext(name) {
	case ".yml", ".yaml", ".json":
		return true
	}
	return false
}
