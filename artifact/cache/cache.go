// Package cache keeps files in a folder, named by their contents, and records facts
// about them, so that they need not be read again.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
	"bootstrap/internal/removal"
)

// Dir is the folder with the cache and the downloads, usually ~/.bosh. Several
// processes may use it.
type Dir string

// Downloads is the folder of downloads, which create-env uses too.
func (d Dir) Downloads() string { return filepath.Join(string(d), "downloads") }

// Path returns the path of a file in the cache.
func (d Dir) Path(parts ...string) string {
	return filepath.Join(append([]string{string(d), "cache"}, parts...)...)
}

// Work creates a temporary folder in the cache, from which finished files are renamed to
// their place. done removes it. If a run is killed, its files in this folder are removed
// by the next run that has the folder alone.
func (d Dir) Work(ctx context.Context) (dir string, done func(), err error) {
	if err := os.MkdirAll(d.Path(), 0o700); err != nil {
		return "", nil, err
	}
	lock := lockfile.New(d.Path("tmp.lock"))
	if alone, err := lock.TryLock(); err == nil && alone {
		removal.Tree(d.Path("tmp"))
		lock.Unlock()
	}
	if _, err := lock.TryRLockContext(ctx, 10*time.Millisecond); err != nil {
		return "", nil, fmt.Errorf("cannot lock %s: %w", lock.Path(), err)
	}
	// The lock is needed: MkdirAll fails if another run removes the folder at the same
	// time.
	if err := os.MkdirAll(d.Path("tmp"), 0o700); err != nil {
		lock.Unlock()
		return "", nil, err
	}
	dir, err = os.MkdirTemp(d.Path("tmp"), "")
	if err != nil {
		lock.Unlock()
		return "", nil, err
	}
	return dir, func() { removal.Tree(dir); lock.Unlock() }, nil
}

// File is a file of the cache, named by its contents.
type File struct {
	SHA256   string   `json:"sha256"`
	Identity Identity `json:"identity"`
}

// ArchivePath returns the path of an archive.
func (d Dir) ArchivePath(sha256 string) string { return d.Path("archives", sha256+".tgz") }

// JobPath returns the path of an extracted job.
func (d Dir) JobPath(sha256 string) string { return d.Path("jobs", sha256) }

// Place moves a finished archive to its place, and replaces a damaged one with
// that name.
func (d Dir) Place(file, sha256 string) (File, error) {
	return PlaceAt(file, d.ArchivePath(sha256), sha256)
}

// PlaceAt is like Place, for a file whose path is not derived from its digest.
func PlaceAt(file, path, sha256 string) (File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return File{}, err
	}
	err := os.Rename(file, path)
	if err != nil {
		removal.Tree(path) // removes a folder that somebody created there
		err = os.Rename(file, path)
	}
	if err != nil {
		return File{}, err
	}
	return File{sha256, IdentifyPath(path)}, nil
}

// Intact reports whether an archive of the cache has the digest in its name. It reads
// the contents unless the identity is a.Identity, and then sets a.Identity.
func (d Dir) Intact(ctx context.Context, a *File) bool {
	return IntactAt(ctx, d.ArchivePath(a.SHA256), a)
}

// IntactAt is intact for a file with a path of its own.
func IntactAt(ctx context.Context, path string, a *File) bool {
	id := IdentifyPath(path)
	if id == a.Identity && id.Regular {
		return true
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, &archive.Input{Ctx: ctx, R: f}, make([]byte, archive.BufferSize)); err != nil {
		return false
	}
	a.Identity = id
	return hex.EncodeToString(h.Sum(nil)) == a.SHA256
}

// PlaceFolder moves a finished folder to path. An existing one with the same
// contents stays, because another run may be reading it.
func (d Dir) PlaceFolder(ctx context.Context, dir, path, tree string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	isThere := func() bool {
		existing, _, err := TreeDigest(path)
		return err == nil && existing == tree
	}
	err := os.Rename(dir, path)
	if err == nil || isThere() {
		return nil
	}
	// Only one run at a time does this, and checks again: a folder that another run has
	// just placed must not be moved away from its readers.
	unlock, lockErr := d.Lock(ctx, "place-"+filepath.Base(path))
	if lockErr != nil {
		return lockErr
	}
	defer unlock()
	for try := range 3 {
		if isThere() {
			return nil
		}
		// A damaged folder is moved to the temporary folder, beside dir.
		if away := os.Rename(path, fmt.Sprintf("%s.damaged%d", dir, try)); away != nil && !errors.Is(away, fs.ErrNotExist) {
			return away
		}
		if err = os.Rename(dir, path); err == nil {
			return nil
		}
	}
	return err
}

// TreeDigest hashes names, modes and contents of a folder, and separately their
// identities. The first digest depends on the contents only; the second shows quickly
// that nothing changed.
func TreeDigest(dir string) (tree, stamp string, err error) {
	h := sha256.New()
	buf := make([]byte, 32<<10)
	stamp, err = TreeStamp(dir, func(name string, info fs.FileInfo) error {
		fmt.Fprintf(h, "%q %v\n", name, info.Mode())
		path := filepath.Join(dir, name)
		switch {
		case info.Mode().IsRegular():
			f, _, err := regular.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, buf); err != nil {
				return err
			}
			fmt.Fprintf(h, "%x\n", sum.Sum(nil))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%q\n", target)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), stamp, err
}

// TreeStamp hashes names, modes and identities of all files below dir. each, if given,
// is called for every file.
func TreeStamp(dir string, each func(name string, info fs.FileInfo) error) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == dir {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v", name, info.Mode())
		if !info.IsDir() {
			id := Identify(info)
			fmt.Fprintf(h, " %d %d %d %d %d", id.Device, id.Inode, id.Size, id.MTime, id.CTime)
		}
		fmt.Fprintln(h)
		if each != nil {
			return each(name, info)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
