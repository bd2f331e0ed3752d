package namespace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits for hidden files.
const (
	mostInFolder = 50     // private files in a folder; one with more is hidden as a whole
	mostBelow    = 500    // private files in a folder and below; one with more is hidden as a whole
	mostHidden   = 2000   // hidden files and folders of one search
	mostNoted    = 20     // folders that the log names
	mostLooked   = 40_000 // files that one search looks at; one folder gets at most half of what is left
)

// hidePrivate covers files that only this person may read, in the folders of the machine
// that the VM sees, because root of the VM is that person. The VM sees only files that
// every user of the machine may read. Files that are added later are not found.
//
// Looking at every file would take seconds on some machines, at each start of a VM. So the search
// ends after a number of files, and what it has not seen is hidden.
func (b *builder) hidePrivate() error {
	if !b.Person {
		return nil // the VM's owner has no files
	}
	var found []string
	for _, dir := range []string{"/usr", "/usr/local", "/usr/src", "/opt", "/etc"} {
		if b.apart(dir) || !b.isThere(dir) {
			continue
		}
		w := &privateWalk{top: dir, trusted: dir == "/usr", skip: func(path string) bool { return b.apart(path) || slices.Contains(b.hidden, path) }}
		w.search()
		for i, path := range slices.Sorted(maps.Keys(w.large)) {
			if i == mostNoted {
				b.note(dir+"/…", fmt.Sprintf("so are %d more folders", len(w.large)-i))
				break
			}
			b.note(path, w.large[path])
		}
		switch {
		case !w.endless && len(w.found) <= mostHidden:
			found = append(found, w.found...)
		case dir == "/usr" && len(w.found) > 0:
			return fmt.Errorf("more than %d files that only you may read would have to be hidden from the VM, %s for example: move them to your home, or let everybody read them", mostHidden, w.found[0])
		case dir == "/usr":
			return errors.New("cannot read /usr")
		case dir == "/opt", dir == "/etc":
			b.note(dir, "it has too many files")
			if err := b.bind(filepath.Join(b.Dir, layersDir, dir, "upper"), dir, 0); err != nil {
				return err
			}
		default:
			b.note(dir, "it has too many files")
			found = append(found, dir)
		}
	}
	if len(found) == 0 {
		return nil
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
		err := b.coverOne(root, name, folder, file)
		for ; err != nil && strings.Count(name, "/") > 2; err = b.coverOne(root, name, folder, file) {
			name = filepath.Dir(name) // because the file cannot be reached
		}
		if err != nil {
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
	case unix.S_IFREG, unix.S_IFSOCK, unix.S_IFIFO:
		if _, err := b.layers.Lstat(b.upper(name)); err == nil {
			return nil // it belongs to the VM
		}
	default:
		return nil
	}
	if err := unix.Mount(source, fmt.Sprintf("/proc/self/fd/%d", fd), "", unix.MS_BIND, ""); err != unix.ENOENT {
		return err
	}
	return nil // it has just been removed
}

// privateWalk finds files in a folder that this user may read and others may not.
type privateWalk struct {
	top     string
	trusted bool                   // in folders of the machine's root, only folders are searched, not files
	skip    func(path string) bool // the VM does not see it
	found   []string
	large   map[string]string // folders that are hidden because they were not searched, with the reason
	looked  int               // number of files
	limit   int               // how many files it may look at before it hides a folder
	endless bool              // the search has found too much to hide it file by file
	buffer  [32 << 10]byte
}

// Rights of others.
const (
	othersRead  = 0o4
	othersWrite = 0o2
	othersEnter = 0o1
)

// search searches the folder top.
func (w *privateWalk) search() {
	w.large, w.limit = map[string]string{}, mostLooked/2
	var is unix.Stat_t
	if unix.Fstatat(unix.AT_FDCWD, w.top, &is, unix.AT_SYMLINK_NOFOLLOW) != nil {
		w.endless = true
		return
	}
	w.walk(unix.AT_FDCWD, w.top, w.top, w.trusted && ofRoot(is))
	w.endless = w.endless || len(w.found) > mostHidden
}

// ofRoot reports whether a folder belongs to the machine's root, and only root may change it.
func ofRoot(is unix.Stat_t) bool {
	return is.Uid != 0 && is.Mode&0o022 == 0 // in this namespace the person is root, and the machine's root is nobody
}

// hide hides a folder in place of the files in it that were found since then.
func (w *privateWalk) hide(path string, since int, why string) {
	if path == w.top {
		w.endless = true
		return
	}
	w.found = append(w.found[:since], path)
	maps.DeleteFunc(w.large, func(below, _ string) bool { return strings.HasPrefix(below, path+"/") })
	if why != "" {
		w.large[path] = why
	}
}

// walk searches one folder. What cannot be searched is hidden. trusted says that it belongs to the
// machine's root.
func (w *privateWalk) walk(parent int, name, path string, trusted bool) {
	since := len(w.found)
	dir, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR:
		return // it has just been removed
	case err == unix.EACCES && unix.Faccessat(parent, name, unix.X_OK, 0) != nil:
		return // the VM does not see its content either
	case err != nil:
		w.hide(path, since, err.Error())
		return
	}
	defer unix.Close(dir)
	folders, private, err := w.list(dir, path, trusted)
	if err != nil {
		w.hide(path, since, err.Error())
		return
	}
	if len(private) > mostInFolder && path != w.top {
		w.hide(path, since, "")
		return
	}
	for _, file := range private {
		w.found = append(w.found, path+"/"+file)
	}
	for _, folder := range folders {
		below := path + "/" + folder.name
		if path == w.top {
			w.renew()
		}
		switch {
		case folder.trusted || w.looked < w.limit:
			w.walk(dir, folder.name, below, folder.trusted)
		case trusted || path == w.top || w.looked >= mostLooked-1:
			w.hide(below, len(w.found), tooMany)
		default: // half of a program is of no use
			w.hide(path, since, tooMany)
			w.renew()
			return
		}
		if len(w.found)-since > mostBelow && !trusted && path != w.top {
			w.hide(path, since, "it has too many files that only you may read")
			return
		}
	}
}

// renew lets the search look at half of the files that are left, so that a large folder
// leaves some for the others.
func (w *privateWalk) renew() { w.limit = w.looked + (mostLooked-w.looked)/2 }

// tooMany is the reason for hiding a folder that was not searched.
const tooMany = "it has too many files to look for those that only you may read"

// below is a folder in another one.
type below struct {
	name    string
	trusted bool
}

// list returns the folders and the private files in a folder. A private folder is listed,
// but not searched.
func (w *privateWalk) list(dir int, path string, trusted bool) (folders []below, private []string, err error) {
	own := 0
	for {
		n, err := unix.Getdents(dir, w.buffer[:])
		if err == unix.ENOENT {
			return nil, nil, nil // it has just been removed
		}
		if err != nil || n == 0 {
			return folders, private, err
		}
		for rest := w.buffer[:n]; len(rest) > 0; {
			size, kind := binary.NativeEndian.Uint16(rest[16:]), rest[18]
			text, _, _ := bytes.Cut(rest[19:size], []byte{0})
			rest = rest[size:]
			if kind == unix.DT_LNK || trusted && kind == unix.DT_REG || string(text) == "." || string(text) == ".." {
				continue
			}
			name := string(text)
			if w.skip(path+"/"+name) || path == "/usr" && (name == "local" || name == "src") {
				continue // they are searched as folders of users
			}
			if !trusted {
				own++
				if w.looked++; w.looked > w.limit {
					if own > mostLooked/8 { // otherwise its parent folder is the large one
						w.renew()
					}
					return nil, nil, errors.New(tooMany)
				}
			}
			is, isPrivate, err := look(dir, name)
			isFolder := is.Mode&unix.S_IFMT == unix.S_IFDIR
			trust := trusted && ofRoot(is)
			switch {
			case err != nil, isPrivate && isFolder:
				w.found = append(w.found, path+"/"+name)
			case isPrivate:
				private = append(private, name)
			case isFolder && (!trust || is.Nlink != 2): // such a folder contains no folder
				folders = append(folders, below{name, trust})
			}
		}
	}
}

// look describes a file or folder, and reports whether this user has rights that others
// do not have.
func look(dir int, name string) (is unix.Stat_t, isPrivate bool, err error) {
	if err := unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT || err == unix.EACCES {
		return unix.Stat_t{}, false, nil // it has just been removed, or the VM does not reach it either
	} else if err != nil {
		return unix.Stat_t{}, true, err
	}
	may := func(right uint32) bool { return unix.Faccessat(dir, name, right, 0) == nil }
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return is, is.Mode&othersRead == 0 && may(unix.R_OK) || is.Mode&othersEnter == 0 && may(unix.X_OK), nil
	case unix.S_IFREG:
		return is, is.Mode&othersRead == 0 && may(unix.R_OK), nil
	case unix.S_IFSOCK, unix.S_IFIFO:
		return is, is.Mode&othersRead == 0 && may(unix.R_OK) || is.Mode&othersWrite == 0 && may(unix.W_OK), nil
	}
	return is, false, nil
}
