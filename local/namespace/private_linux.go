package namespace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits for hidden files.
const (
	mostInFolder = 50   // number of private files; a folder with more is hidden as a whole
	mostHidden   = 2000 // number of files and folders
)

// hidePrivate covers files that only this person may read, in the folders of the machine
// that the VM sees, because root of the VM is that person. The VM sees only files that
// every user of the machine may read. Files that are added later are not found.
func (b *builder) hidePrivate() error {
	if !b.Person {
		return nil // the VM's owner has no files
	}
	var found []string
	for _, dir := range []string{"/usr", "/opt", "/etc"} {
		w := &privateWalk{trusted: dir == "/usr", cross: !b.overlaid[dir], hidden: b.hidden}
		is, _ := look(unix.AT_FDCWD, dir)
		if err := w.walk(unix.AT_FDCWD, dir, dir, is); err != nil {
			return err
		}
		found = append(found, w.found...)
	}
	if len(found) == 0 {
		return nil
	}
	if len(found) > mostHidden {
		return fmt.Errorf("more than %d files that only you may read would have to be hidden from the VM, %s for example: move them to your home, or let everybody read them", mostHidden, found[0])
	}
	return b.cover(found)
}

// cover hides these files and folders of the machine.
func (b *builder) cover(names []string) error {
	// The covers have the name of a folder that is made later.
	place := b.at("/mnt")
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=4k"); err != nil {
		return err
	}
	folder, file := filepath.Join(place, "folder"), filepath.Join(place, "file")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := mount("", place, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=4k"); err != nil {
		return err
	}
	root, err := unix.Open(b.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, name := range names {
		if err := b.coverOne(root, name, folder, file); err != nil {
			return fmt.Errorf("cannot hide %s from the VM: %w", name, err)
		}
	}
	if err := unix.Unmount(place, unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove(place)
}

// coverOne covers one file or folder, unless a job has put something else at its path or
// in place of a parent folder.
func (b *builder) coverOne(root int, name, folder, file string) error {
	fd, err := unix.Openat2(root, strings.TrimPrefix(name, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	source := file
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		source = folder
	case unix.S_IFREG:
		if _, err := b.layers.Lstat(b.upper(name)); err == nil {
			return nil // it belongs to the VM
		}
	default:
		return nil
	}
	return unix.Mount(source, fmt.Sprintf("/proc/self/fd/%d", fd), "", unix.MS_BIND, "")
}

// privateWalk finds files in a folder that this user may read and others may not.
type privateWalk struct {
	trusted bool // in folders of the machine's root, only folders are searched, not files
	cross   bool // other file systems mounted below are visible in the VM
	hidden  []string
	found   []string
	device  uint64
	buffer  [32 << 10]byte
}

// Rights of others.
const (
	othersRead  = 0o4
	othersEnter = 0o1
)

// walk searches one folder, which look has described.
func (w *privateWalk) walk(parent int, name, path string, is unix.Stat_t) error {
	top := w.device == 0
	if top {
		w.device = is.Dev
	}
	if is.Dev != w.device && !w.cross || slices.Contains(w.hidden, path) {
		return nil
	}
	// In this namespace the person is root, and the machine's root is nobody.
	trusted := w.trusted && is.Uid != 0 && is.Mode&0o022 == 0 && path != "/usr/local" && path != "/usr/src"
	if trusted && is.Nlink == 2 {
		return nil // it contains no folder
	}
	dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.EACCES || err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR {
		return nil // the VM does not see its content either
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(dir)
	folders, private, err := w.list(dir, path, trusted)
	if err != nil {
		return err
	}
	if len(private) > mostInFolder && !top {
		w.found = append(w.found, path)
		return nil
	}
	for _, file := range private {
		w.found = append(w.found, path+"/"+file)
	}
	above := w.trusted
	w.trusted = trusted
	for _, folder := range folders {
		if err := w.walk(dir, folder.name, path+"/"+folder.name, folder.is); err != nil {
			return err
		}
	}
	w.trusted = above
	return nil
}

// below is a folder in another one.
type below struct {
	name string
	is   unix.Stat_t
}

// list returns the folders and the private files in a folder. A private folder is listed,
// but not searched.
func (w *privateWalk) list(dir int, path string, trusted bool) (folders []below, private []string, err error) {
	for {
		n, err := unix.Getdents(dir, w.buffer[:])
		if err != nil {
			return nil, nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return folders, private, nil
		}
		for rest := w.buffer[:n]; len(rest) > 0; {
			size, kind := binary.NativeEndian.Uint16(rest[16:]), rest[18]
			text, _, _ := bytes.Cut(rest[19:size], []byte{0})
			rest = rest[size:]
			if kind == unix.DT_LNK || trusted && kind == unix.DT_REG || string(text) == "." || string(text) == ".." {
				continue
			}
			name := string(text)
			is, isPrivate := look(dir, name)
			isFolder := is.Mode&unix.S_IFMT == unix.S_IFDIR
			switch {
			case isPrivate && isFolder:
				w.found = append(w.found, path+"/"+name)
			case isPrivate:
				private = append(private, name)
			case isFolder:
				folders = append(folders, below{name, is})
			}
		}
	}
}

// look describes a file or folder, and reports whether this user has rights that others
// do not have.
func look(dir int, name string) (is unix.Stat_t, isPrivate bool) {
	if unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.Stat_t{}, false
	}
	may := func(right uint32) bool { return unix.Faccessat(dir, name, right, 0) == nil }
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return is, is.Mode&othersRead == 0 && may(unix.R_OK) || is.Mode&othersEnter == 0 && may(unix.X_OK)
	case unix.S_IFREG:
		return is, is.Mode&othersRead == 0 && may(unix.R_OK)
	}
	return is, false
}
