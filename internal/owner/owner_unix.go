//go:build unix

package owner

import (
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"syscall"
)

func isRoot() bool { return os.Geteuid() == 0 }

func worldWritable(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

// otherOwner returns the name of the owner, and whether it is another user.
func otherOwner(info fs.FileInfo) (name string, another bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() {
		return "", false
	}
	id := strconv.Itoa(int(s.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username, true
	}
	return "the user " + id, true
}

// idOf returns the number of the owner.
func idOf(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.Itoa(int(s.Uid))
	}
	return ""
}

// GiveBack gives the files that root created in ~/.bosh to the owner of ~/.bosh,
// except the VMs and disks of the embedded CPI, whose processes belong to root
// as well. Errors are ignored: the next run reports a file that it cannot use.
func GiveBack(home string) {
	info, err := os.Stat(home)
	if err != nil || !isRoot() {
		return
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return
	}
	// No path may lead out of the folder: its owner could have created a link.
	root, err := os.OpenRoot(home)
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if above := path.Dir(name); above == "local/vms" || above == "local/disks" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if s, ok := statOf(info, err); !ok || s.Uid != 0 {
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			_ = root.Lchown(name, int(owner.Uid), int(owner.Gid))
			return nil
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil
		}
		defer f.Close()
		// A file with a second name may be a file of root's elsewhere.
		if s, ok := statOf(f.Stat()); ok && s.Uid == 0 && (d.IsDir() || s.Nlink == 1) {
			_ = f.Chown(int(owner.Uid), int(owner.Gid))
		}
		return nil
	})
}

func statOf(info fs.FileInfo, err error) (*syscall.Stat_t, bool) {
	if err != nil {
		return nil, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return s, ok
}
