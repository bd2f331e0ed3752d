package machine

import (
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

// Unmount ends the mount at a place below Root.
func (v VM) Unmount(place string) error {
	if err := unix.Unmount(v.Path(place), unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("cannot unmount %s: %w", v.Path(place), err)
	}
	return nil
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
