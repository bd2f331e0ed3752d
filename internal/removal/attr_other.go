//go:build unix && !linux

package removal

import "golang.org/x/sys/unix"

// openFolder opens a folder. It opens neither a link nor a file system that is mounted
// there.
func openFolder(parent int, name string) (int, error) { return openSameDevice(parent, name) }

// makeReadable lets this user read a folder.
func makeReadable(parent int, name string) error {
	return unix.Fchmodat(parent, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

func allowChanges(int) {}
