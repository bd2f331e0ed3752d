package removal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openFolder opens a folder. It opens neither a link nor a file system that is mounted
// there.
func openFolder(parent int, name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(parent, name, &how)
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, err
	}
	// Linux before 5.6, or a container that refuses the call.
	return openSameDevice(parent, name)
}

// makeReadable lets this user read a folder. It does not use chmod, which would follow a
// link.
func makeReadable(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700); err != nil {
		return unix.EACCES
	}
	return nil
}

// Attributes of a file. See ioctl_iflags(2).
const (
	immutable  = 0x10
	appendOnly = 0x20
)

// allowChanges removes the attributes that keep root from changing a file.
func allowChanges(fd int) {
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if keep := flags &^ (immutable | appendOnly); err == nil && keep != flags {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, keep)
	}
}
