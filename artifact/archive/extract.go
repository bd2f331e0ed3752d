package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/regular"
)

// Extract unpacks an archive (tar, plain or packed with gzip, zstd or bzip2)
// into dir, which it creates, and never writes outside of it. An entry that would
// lead outside, a device, and an archive that exceeds lim are an *UnsafeError; files
// unpacked before stay. Modes are kept without setuid, setgid and sticky bits, and
// the owner may always write; times are kept, owners are not.
func Extract(ctx context.Context, archive, dir string, lim Limits) error {
	f, _, err := regular.Open(archive)
	if err != nil {
		return fmt.Errorf("cannot extract %s: %w", archive, Cause(err))
	}
	defer f.Close()
	return ExtractFile(ctx, f, dir, lim, nil, nil)
}

// ExtractFile is like Extract, for an open file. see, if given, returns for each entry
// a writer for its contents, or nil.
func ExtractFile(ctx context.Context, f *os.File, dir string, lim Limits, p Progress, see func(name string) io.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot extract %s: %w", f.Name(), Cause(err))
	}
	u, err := Unpack(&Input{Ctx: ctx, R: f, Total: info.Size(), Progress: p}, lim)
	if err != nil {
		return fmt.Errorf("cannot extract %s: %w", f.Name(), err)
	}
	defer u.Close()
	return u.Extract(f.Name(), dir, see)
}

// extraction is one run of Extract.
type extraction struct {
	root  *os.Root
	lim   Limits
	see   func(name string) io.Writer
	dirs  map[string]time.Time // folders that are not links, with the times to set
	links []link
	buf   []byte

	last    string   // folder of the entry before
	lastDir *os.Root // kept open, because most entries are in the folder of the previous one
}

type link struct{ name, entry string }

// Extract unpacks the tar into dir as the function Extract does; archive is its name
// in errors, and see is as for ExtractFile.
func (u *Tar) Extract(archive, dir string, see func(string) io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot extract %s: %w", archive, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot extract %s: %w", archive, err)
	}
	defer root.Close()
	x := &extraction{root: root, last: ".", lastDir: root, lim: u.lim, see: see, dirs: map[string]time.Time{".": {}}, buf: make([]byte, BufferSize)}
	defer func() { x.lastDir.Close() }()
	err = u.Entries(archive, func(name string, h *tar.Header, r io.Reader) error {
		reason, err := x.entry(name, h, r)
		if reason != "" {
			return &UnsafeError{archive, h.Name, reason}
		}
		return err
	})
	if err != nil {
		return err
	}
	if l, reason := x.leavingLink(); reason != "" {
		return &UnsafeError{archive, l.entry, reason}
	}
	return x.dateFolders()
}

// entry unpacks one entry, or returns why the entry is refused.
func (x *extraction) entry(name string, h *tar.Header, r io.Reader) (reason string, err error) {
	if x.lim.Skip != nil && x.lim.Skip(name, h) {
		return "", nil
	}
	if h.Typeflag == tar.TypeDir {
		return x.folder(name, h)
	}
	if name == "." {
		return "it is the folder itself, but not of type folder", nil
	}
	if reason, err := x.parents(path.Dir(name)); reason != "" || err != nil {
		return reason, err
	}
	in, base, err := x.openParent(name)
	if err != nil {
		return "", err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return x.file(in, base, name, h, r)
	case tar.TypeSymlink:
		return x.symlink(in, base, name, h)
	case tar.TypeLink:
		return x.hardlink(name, h)
	case tar.TypeChar, tar.TypeBlock:
		return "it is a device", nil
	case tar.TypeFifo:
		return "it is a named pipe", nil
	}
	return fmt.Sprintf("it is of an unknown kind (%q)", h.Typeflag), nil
}

// openParent opens the folder of an entry; this folder is not a link. Using the entry's name
// relative to this folder avoids walking the whole path in every system call.
func (x *extraction) openParent(name string) (in *os.Root, base string, err error) {
	dir, base := path.Dir(name), path.Base(name)
	if dir != x.last {
		if in, err = x.root.OpenRoot(dir); err != nil {
			return nil, "", err
		}
		if x.lastDir != x.root {
			x.lastDir.Close()
		}
		x.last, x.lastDir = dir, in
	}
	return x.lastDir, base, nil
}

// parents creates the folders above an entry; none of them may be a link.
func (x *extraction) parents(dir string) (reason string, err error) {
	if _, known := x.dirs[dir]; known {
		return "", nil
	}
	if reason, err := x.parents(path.Dir(dir)); reason != "" || err != nil {
		return reason, err
	}
	err = x.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		info, err := x.root.Lstat(dir)
		if err != nil {
			return "", err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Sprintf("it leads through the link %q", dir), nil
		case !info.IsDir():
			return fmt.Sprintf("it is below %q, which is not a folder", dir), nil
		}
	} else if err != nil {
		return "", err
	}
	x.dirs[dir] = time.Time{}
	return "", nil
}

func (x *extraction) folder(name string, h *tar.Header) (reason string, err error) {
	if reason, err := x.parents(name); reason != "" || err != nil {
		return reason, err
	}
	if name == "." {
		return "", nil
	}
	x.dirs[name] = h.ModTime
	return "", x.root.Chmod(name, fs.FileMode(h.Mode)&0o777|0o700)
}

func (x *extraction) file(in *os.Root, base, name string, h *tar.Header, r io.Reader) (reason string, err error) {
	flags := os.O_CREATE | os.O_EXCL | os.O_WRONLY
	f, err := in.OpenFile(base, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if reason, err := remove(in, base); reason != "" || err != nil {
			return reason, err
		}
		f, err = in.OpenFile(base, flags, 0o600)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if x.see != nil {
		if w := x.see(name); w != nil {
			r = io.TeeReader(r, w)
		}
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r}, x.buf); err != nil {
		return "", err
	}
	if err := f.Chmod(fs.FileMode(h.Mode)&0o777 | 0o200); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return "", date(in, base, h.ModTime)
}

// remove removes the earlier file if an entry occurs a second time. It keeps a folder, so
// that dirs stays correct.
func remove(in *os.Root, base string) (reason string, err error) {
	info, err := in.Lstat(base)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "a folder with that name exists", nil
	}
	return "", in.Remove(base)
}

func (x *extraction) symlink(in *os.Root, base, name string, h *tar.Header) (reason string, err error) {
	if !x.lim.AnyLinks {
		if reason := leads(name, h.Linkname); reason != "" {
			return reason, nil
		}
	}
	err = in.Symlink(h.Linkname, base)
	if errors.Is(err, fs.ErrExist) {
		if reason, err := remove(in, base); reason != "" || err != nil {
			return reason, err
		}
		err = in.Symlink(h.Linkname, base)
	}
	if err == nil && !x.lim.AnyLinks {
		x.links = append(x.links, link{name, h.Name})
	}
	return "", err
}

// leads returns why a link at name is refused. It looks only at the text of the link's
// target.
func leads(name, target string) (reason string) {
	if target == "" {
		return "it is a link to nothing"
	}
	if path.IsAbs(target) || filepath.IsAbs(target) {
		return fmt.Sprintf("it is a link to the absolute path %q", target)
	}
	if !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target))) {
		return fmt.Sprintf("it is a link that leads out of the folder, to %q", target)
	}
	return ""
}

// leavingLink finds a link that leads outside through other links, and removes it. It
// runs after all entries, because only then is the target of each link known.
func (x *extraction) leavingLink() (link, string) {
	for _, l := range x.links {
		_, err := x.root.Stat(l.name)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), notDirectory(err):
			continue
		}
		x.root.Remove(l.name)
		return l, "it is a link that leads out of the folder or in a circle"
	}
	return link{}, ""
}

func (x *extraction) hardlink(name string, h *tar.Header) (reason string, err error) {
	target, reason := entryName(h.Linkname)
	if reason != "" {
		return fmt.Sprintf("it is a hard link to %q, which leads out of the folder", h.Linkname), nil
	}
	if reason, err := x.realPath(target); reason != "" || err != nil {
		return reason, err
	}
	if target == name {
		return "", nil
	}
	err = x.root.Link(target, name)
	if errors.Is(err, fs.ErrExist) {
		if reason, err := remove(x.root, name); reason != "" || err != nil {
			return reason, err
		}
		err = x.root.Link(target, name)
	}
	return "", err
}

// realPath refuses the target of a hard link if it is not a regular file or is
// reached through a link.
func (x *extraction) realPath(target string) (reason string, err error) {
	parts := strings.Split(target, "/")
	for i := range parts {
		info, err := x.root.Lstat(path.Join(parts[:i+1]...))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("it is a hard link to %q, which is not an earlier entry", target), nil
		}
		if err != nil {
			return "", err
		}
		if last := i == len(parts)-1; last && !info.Mode().IsRegular() || !last && !info.IsDir() {
			return fmt.Sprintf("it is a hard link to %q, which is not a regular file", target), nil
		}
	}
	return "", nil
}

func date(in *os.Root, name string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return in.Chtimes(name, t, t)
}

// dateFolders sets the times of folders last, because creating files in them
// changes these.
func (x *extraction) dateFolders() error {
	names := make([]string, 0, len(x.dirs))
	for name := range x.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		if err := date(x.root, name, x.dirs[name]); err != nil {
			return err
		}
	}
	return nil
}

// Cause removes operation and path from a file error, because the sentence has them.
func Cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
