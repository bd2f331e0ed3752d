package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"bootstrap/artifact/metadata"
)

// This file finds files that a release folder lacks after a checkout from git, and
// words the messages about them.

// nothingFound explains why no file matches a pattern.
func (b *releaseFolder) nothingFound(pattern string) error {
	if b.blobsErr != nil {
		return fmt.Errorf("pattern %q in files finds nothing in src and blobs, and %w", pattern, b.blobsErr)
	}
	if module := b.emptySubmodule(pattern); module != "" {
		return fmt.Errorf("pattern %q in files finds nothing: the git submodule %s is not checked out: run git submodule update --init --recursive", pattern, module)
	}
	if link := b.linkIn(pattern); link != "" {
		return fmt.Errorf("pattern %q in files finds nothing: src/%s is a symbolic link to a folder, which patterns do not follow, as with bosh create-release: put the folder there in place of the link", pattern, link)
	}
	return fmt.Errorf("pattern %q in files finds nothing in src, blobs and config/blobs.yml: put the file below src or blobs; bosh add-blob FILE PATH lists a blob", pattern)
}

// emptySubmodule returns the empty git submodule that contains the path of a pattern of
// src; "" if there is no such submodule.
func (b *releaseFolder) emptySubmodule(pattern string) string {
	text, err := metadata.ReadFile(b.fsys, ".gitmodules")
	if err != nil {
		return ""
	}
	fixed, _ := doublestar.SplitPattern(path.Join("src", strings.TrimPrefix(pattern, "./")))
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		module := path.Clean(strings.TrimSpace(value))
		if strings.TrimSpace(key) != "path" || !fs.ValidPath(module) {
			continue
		}
		if module != fixed && !strings.HasPrefix(module, fixed+"/") && !strings.HasPrefix(fixed, module+"/") {
			continue
		}
		if list, err := fs.ReadDir(b.fsys, module); len(list) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			return module
		}
	}
	return ""
}

// usesLFS reports whether files of the folder may be in git LFS.
func (b *releaseFolder) usesLFS() bool {
	text, err := metadata.ReadFile(b.fsys, ".gitattributes")
	return err == nil && bytes.Contains(text, []byte("filter=lfs"))
}

// lfsPointer is larger than every pointer file of git LFS, in bytes.
const lfsPointer = 1 << 10

// isPointer reports whether a file is only a pointer of git LFS.
func isPointer(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() >= lfsPointer {
		return false
	}
	text, err := fs.ReadFile(fsys, name)
	return err == nil && bytes.HasPrefix(text, []byte("version https://git-lfs.github.com/spec/"))
}

// problems lists defects of the needed packages that fetching cannot solve.
func (b *releaseFolder) problems(needed map[string]bool) error {
	var errs []error
	for _, p := range b.packages {
		if needed[p.Name] && p.err != nil {
			errs = append(errs, p.err)
		}
	}
	return errors.Join(errs...)
}

// lacking lists the files that the needed packages lack.
func (b *releaseFolder) lacking(needed map[string]bool) []lacking {
	var list []lacking
	for _, p := range b.packages {
		if !needed[p.Name] {
			continue
		}
		for _, bl := range p.lacks {
			at := slices.IndexFunc(list, func(l lacking) bool { return l.name == bl.name })
			if at < 0 {
				at = len(list)
				list = append(list, lacking{blob: bl})
			}
			list[at].packages = append(list[at].packages, p.Name)
		}
	}
	slices.SortStableFunc(list, func(a, b lacking) int { return strings.Compare(a.name, b.name) })
	return list
}

// lackingError says which files the needed packages lack, and why they were not
// fetched.
func (b *releaseFolder) lackingError(dir string, needed map[string]bool) error {
	list := b.lacking(needed)
	return lackingError(dir, list, func(i int) string {
		switch bl := list[i].blob; {
		case bl.want.Algorithm == "":
			return "it is vendored (spec.lock), and neither .final_builds nor .dev_builds says where it is"
		case bl.id == "":
			return "it was never uploaded to the blobstore"
		case b.storeErr != nil:
			return b.storeErr.Error()
		case b.store.Folder != "" && isPointer(os.DirFS(b.store.Folder), bl.id):
			return "in " + b.store.Folder + " it is only a pointer of git LFS: run git lfs pull"
		case b.store.Folder != "":
			return "it is not in " + b.store.Folder
		}
		return "it was not fetched, because another file cannot be fetched"
	})
}

// linkIn returns the folder of a pattern that is a symbolic link in src; empty: none is.
func (b *releaseFolder) linkIn(pattern string) string {
	dir := ""
	for _, name := range strings.Split(pattern, "/") {
		if strings.ContainsAny(name, "*?[{") {
			break
		}
		dir = path.Join(dir, name)
		if info, err := fs.Lstat(b.fsys, path.Join("src", dir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}
