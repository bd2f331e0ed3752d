package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount shows the folder of a disk at a place below Root.
func (v VM) Mount(folder, place string) error {
	if err := unix.Mount(folder, v.Path(place), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s at %s: %w", folder, v.Path(place), err)
	}
	return nil
}

// Unmount ends all mounts at a place below Root. Jobs can mount and unmount there,
// too, so that none is no error.
func (v VM) Unmount(place string) error {
	for {
		err := unix.Unmount(v.Path(place), unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // it is not a place where something is mounted
		case err != nil:
			return fmt.Errorf("cannot unmount %s: %w", v.Path(place), err)
		}
	}
}

// Mounted returns the name of the folder that is mounted at a place below Root,
// without the path that it has outside; empty if none is.
func (v VM) Mounted(place string) (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	name := ""
	for line := range strings.Lines(string(text)) {
		// The fourth field is the folder in its file system, the fifth the place.
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == v.Path(place) {
			name = filepath.Base(fields[3])
		}
	}
	return name, nil
}
