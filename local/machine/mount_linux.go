package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"bootstrap/internal/mounts"
)

// Mount mounts the folder of a disk at a place below Root.
func (v VM) Mount(folder, place string) error {
	if err := unix.Mount(folder, v.Path(place), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s at %s: %w", folder, v.Path(place), err)
	}
	return nil
}

// Unmount ends all mounts at a place below Root. If there is none, that is not an error,
// because jobs can unmount, too.
func (v VM) Unmount(place string) error {
	for {
		err := unix.Unmount(v.Path(place), unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // nothing is mounted there
		case err != nil:
			return fmt.Errorf("cannot unmount %s: %w", v.Path(place), err)
		}
	}
}

// Mounted reports whether there is a mount at a place below Root, and whether it is that
// of the folder.
func (v VM) Mounted(folder, place string) (mounted, same bool, err error) {
	list, err := mounts.Read()
	if err != nil {
		return false, false, err
	}
	name := ""
	for _, m := range list {
		if m.Place == v.Path(place) {
			mounted, name = true, filepath.Base(m.Folder)
		}
	}
	if !mounted || folder == "" {
		return mounted, false, nil
	}
	// Outside of the VM the folder has another path, but the same name; it may not exist
	// any more. A disk that is a file system has no name here.
	want, err := os.Stat(folder)
	if err != nil {
		return true, name == filepath.Base(folder), nil
	}
	there, err := os.Stat(v.Path(place))
	return true, err == nil && os.SameFile(want, there), err
}
