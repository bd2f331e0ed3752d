package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// What a release folder lacks after it was checked out of git, and the words
// for it.

// nothingFound says why a pattern may find nothing.
func (b *releaseFolder) nothingFound(pattern string) error {
	if b.blobsErr != nil {
		return fmt.Errorf("pattern %q in files finds nothing in src and blobs, and %w", pattern, b.blobsErr)
	}
	if module := b.emptySubmodule(pattern); module != "" {
		return fmt.Errorf("pattern %q in files finds nothing: the git submodule %s is not checked out: run git submodule update --init --recursive", pattern, module)
	}
	return fmt.Errorf("pattern %q in files finds nothing in src, blobs and config/blobs.yml: put the file below src or blobs; bosh add-blob FILE PATH lists a blob", pattern)
}

// emptySubmodule returns the git submodule in which, or below the beginning of
// which, a pattern of src looks in vain; empty: none.
func (b *releaseFolder) emptySubmodule(pattern string) string {
	text, err := readFolderMetadata(b.fsys, ".gitmodules")
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

// usesLFS tells whether files of the folder may be kept by git LFS.
func (b *releaseFolder) usesLFS() bool {
	text, err := readFolderMetadata(b.fsys, ".gitattributes")
	return err == nil && bytes.Contains(text, []byte("filter=lfs"))
}

// lfsPointer is more than a pointer of git LFS has.
const lfsPointer = 1 << 10

// isPointer tells whether git LFS has left a pointer in place of a file.
func (b *releaseFolder) isPointer(name string, info fs.FileInfo) bool {
	if !b.lfs || info.Size() >= lfsPointer {
		return false
	}
	text, err := fs.ReadFile(b.fsys, name)
	return err == nil && bytes.HasPrefix(text, []byte("version https://git-lfs.github.com/spec/"))
}

// problems are what is wrong with the packages needed, whatever is fetched.
func (b *releaseFolder) problems(needed map[string]bool) error {
	var errs []error
	for _, p := range b.packages {
		if needed[p.Name] && p.err != nil {
			errs = append(errs, p.err)
		}
	}
	return errors.Join(errs...)
}

// lacking lists the files that the packages needed lack.
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
	slices.SortFunc(list, func(a, b lacking) int { return strings.Compare(a.name, b.name) })
	return list
}

// lackingError says what the packages needed lack, and why it was not fetched.
func (b *releaseFolder) lackingError(dir string, needed map[string]bool) error {
	list := b.lacking(needed)
	return lackingError(dir, list, func(i int) string {
		switch bl := list[i].blob; {
		case bl.want.Algorithm == "":
			return "it is vendored (spec.lock), and neither .final_builds nor .dev_builds tells where it is"
		case bl.id == "":
			return "it was never uploaded to the blobstore"
		case b.storeErr != nil:
			return b.storeErr.Error()
		case b.store.folder != "":
			return "it is not in " + b.store.folder
		}
		return "it was not fetched, because another file cannot be fetched"
	})
}
