package namespace

import (
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

	"golang.org/x/sys/unix"

	"bootstrap/internal/mounts"
)

// Limits for folders of the machine.
const (
	mostListed = 20_000  // files in a folder with mount points below it, which are mounted one by one
	mostOpened = 1000    // folders in a folder to which the VM can add files
	mostCopied = 4 << 20 // bytes of a file of /etc
)

// readMounts finds out what is mounted in the folders of the machine that the VM sees. The
// VM does not see other file systems that are mounted there, and nobody here asks them: they may
// never answer, such as NFS without its server, or have files without end, such as proc.
func (b *builder) readMounts() error {
	list, err := mounts.Read()
	if err != nil {
		return fmt.Errorf("cannot read the mounts of this machine: %w", err)
	}
	b.mounts, b.above = map[string]mounts.Mount{}, map[string]bool{}
	for _, m := range list {
		b.mounts[m.Place] = m // the last one is visible
		for dir := filepath.Dir(m.Place); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
			b.above[dir] = true
		}
	}
	return nil
}

// apart reports whether the VM does not see what is mounted at this path below a folder of the
// machine. Distributions mount parts of /usr and /nix from the same file system.
func (b *builder) apart(path string) bool {
	m, is := b.mounts[path]
	if !is || path == "/nix/store" || path == "/gnu/store" {
		return false
	}
	if strings.HasPrefix(path, "/opt/") || strings.HasPrefix(path, "/etc/") {
		return true
	}
	top := path
	if rest := strings.IndexByte(path[1:], '/'); rest > 0 {
		top = path[:rest+1]
	}
	around, is := b.mounts[top]
	if !is {
		around = b.mounts["/"]
	}
	return m.Device != around.Device
}

// isThere reports whether this machine has a folder that the VM can see. /opt from another
// machine is left out, because a server that does not answer would stop the VM.
func (b *builder) isThere(dir string) bool {
	if m, is := b.mounts[dir]; is && dir != "/usr" && dir != "/etc" && !slices.Contains(diskKinds(), m.Kind) {
		b.note(dir, "a file system of the type "+m.Kind+" is mounted there")
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

// diskKinds are types of file systems on disks and in memory, which always answer.
func diskKinds() []string {
	return []string{"bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "squashfs", "tmpfs", "virtiofs", "xfs", "zfs"}
}

// note writes to the VM's log what the VM does not see.
func (b *builder) note(path, why string) {
	_, _ = unix.Write(logFD, fmt.Appendf(nil, "%q is empty in the VM: %s\n", path, why))
}

// show mounts a folder of the machine in the VM, and reports whether the VM can add
// files to it.
func (b *builder) show(dir string) (open bool, err error) {
	if b.above[dir] {
		return b.compose(dir)
	}
	if b.overlay(dir) == nil {
		return true, nil
	}
	return false, b.bindReadOnly(dir, dir)
}

// showReadOnly mounts a folder of the machine to which the VM cannot add files.
func (b *builder) showReadOnly(dir string) error {
	if b.above[dir] {
		_, err := b.compose(dir)
		return err
	}
	return b.bindReadOnly(dir, dir)
}

// piece is a folder or file of the machine that is mounted alone.
type piece struct {
	path   string
	folder bool
	open   bool // the VM can add files to it
}

// composer makes a view of a folder with mount points below it. The kernel refuses to mount such a
// folder without them.
type composer struct {
	*builder
	top    string // the folder
	frame  string // folder with the empty folders and files at which the pieces are mounted
	pieces []piece
	left   int // number of files that may still be listed
}

// compose mounts everything in a folder of the machine, except for other file systems.
func (b *builder) compose(dir string) (open bool, err error) {
	place := b.at("/mnt") // a name of a folder that is made later
	if err := os.MkdirAll(place, 0o755); err != nil {
		return false, err
	}
	if err := mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return false, err
	}
	defer func() {
		err = errors.Join(err, unix.Unmount(place, unix.MNT_DETACH), os.Remove(place))
	}()
	c := &composer{builder: b, top: dir, frame: filepath.Join(place, "frame"), left: mostListed}
	if err := os.Mkdir(c.frame, 0o755); err != nil {
		return false, err
	}
	if err := c.list(dir, c.frame, systemDepth(dir)); err != nil {
		return false, err
	}
	if slices.Contains([]string{"/usr", "/opt", "/etc"}, dir) && b.overlayFrom(c.frame, dir) == nil {
		open = true
	} else if dir == "/etc" {
		return false, errors.New("there are no overlays here")
	} else if err := b.bindReadOnly(c.frame, dir); err != nil {
		return false, err
	}
	root, err := unix.Open(b.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(root)
	for _, p := range c.pieces {
		if err := b.mountPiece(root, p, open); err != nil {
			b.note(p.path, err.Error())
		}
	}
	return open, nil
}

// list makes the frame of a folder, and collects its pieces.
func (c *composer) list(dir, frame string, depth int) error {
	entries, err := someEntries(dir, c.left)
	if err != nil {
		c.note(dir, err.Error())
		return nil
	}
	c.left -= len(entries)
	for _, entry := range entries {
		path, place := filepath.Join(dir, entry.Name()), filepath.Join(frame, entry.Name())
		switch {
		case c.apart(path):
			c.note(path, "another file system is mounted there")
			if entry.IsDir() {
				err = os.Mkdir(place, 0o755)
			} else {
				err = os.WriteFile(place, nil, 0o600)
			}
		case entry.IsDir():
			if err = os.Mkdir(place, 0o755); err == nil && c.above[path] {
				err = c.list(path, place, depth-1)
			} else if err == nil {
				c.pieces = append(c.pieces, piece{path, true, depth > 0})
			}
		case entry.Type()&fs.ModeSymlink != 0:
			if target, failed := os.Readlink(path); failed == nil {
				err = os.Symlink(target, place)
			}
		case entry.Type().IsRegular() && c.top == "/etc":
			if text, mode, public := readPublic(path); public {
				err = os.WriteFile(place, text, mode)
			}
		case entry.Type().IsRegular():
			err = os.WriteFile(place, nil, 0o600)
			c.pieces = append(c.pieces, piece{path: path})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// someEntries lists a folder, unless it has more than most entries.
func someEntries(dir string, most int) ([]fs.DirEntry, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	entries, err := f.ReadDir(most + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > most {
		return nil, fmt.Errorf("it has more than %d files", most)
	}
	return entries, nil
}

// mountPiece mounts a folder or file of the machine at its path in the VM, unless a job has put
// something else there.
func (b *builder) mountPiece(root int, p piece, overlays bool) error {
	target, err := unix.Openat2(root, p.path[1:], &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil // a job has removed or replaced a folder above
	}
	defer unix.Close(target)
	var there unix.Stat_t
	if err := unix.Fstat(target, &there); err != nil {
		return err
	}
	if isFolder := there.Mode&unix.S_IFMT == unix.S_IFDIR; isFolder != p.folder {
		return nil
	}
	source, err := unix.Openat2(unix.AT_FDCWD, p.path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(source)
	if p.folder && p.open && overlays {
		if b.overlayPiece(source, target, p.path) == nil {
			return nil
		}
	} else if !p.folder {
		if _, err := b.layers.Lstat(b.upper(p.path)); err == nil {
			return nil // it belongs to the VM
		}
	}
	tree, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// overlayPiece mounts a folder of the machine with the VM's files on top.
func (b *builder) overlayPiece(source, target int, path string) error {
	var is unix.Stat_t
	if err := unix.Fstat(source, &is); err != nil {
		return err
	}
	if err := b.layer(b.upper(path), fs.FileMode(is.Mode&0o777|0o700)); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(path))
	return b.overlayAt(source, fmt.Sprintf("/proc/self/fd/%d", target), b.upper(path), "works/"+hex.EncodeToString(sum[:8]))
}

// overlay mounts the machine's folder with the VM's files on top.
func (b *builder) overlay(dir string) error { return b.overlayFrom(dir, dir) }

// overlayFrom mounts a folder at the path dir in the VM, with the VM's files on top.
func (b *builder) overlayFrom(lower, dir string) error {
	if err := os.MkdirAll(b.at(dir), 0o755); err != nil {
		return err
	}
	fd, err := unix.Open(lower, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return b.overlayAt(fd, b.at(dir), dir[1:]+"/upper", dir[1:]+"/work")
}

// overlayAt mounts an overlay of a folder and a folder of the layers.
func (b *builder) overlayAt(lower int, target, upper, work string) error {
	if err := b.layer(work, 0o700); err != nil {
		return err
	}
	on, err := b.layers.Open(upper)
	if err != nil {
		return err
	}
	defer on.Close()
	in, err := b.layers.Open(work)
	if err != nil {
		return err
	}
	defer in.Close()
	// Paths would need quoting, because commas and colons separate the options.
	options := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,userxattr", lower, on.Fd(), in.Fd())
	if err := mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return err
	}
	// Its owner cannot remove a folder without read permission.
	_ = b.layers.Chmod(work+"/work", 0o700)
	return nil
}
