package cpi

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bootstrap/internal/mounts"
)

// unmountBelow unmounts what jobs of a VM that is a folder have mounted below a folder,
// which could not be removed otherwise.
func unmountBelow(dir string) error {
	list, err := mounts.Read()
	if err != nil {
		return nil // The mounts are unknown; removing the folder reports them.
	}
	var places []string
	for _, m := range list {
		if strings.HasPrefix(m.Place, dir+"/") {
			places = append(places, m.Place)
		}
	}
	slices.Reverse(places) // the last mount covers the others
	for _, place := range places {
		if err := unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cannot umount %s, which a job has mounted: %w", place, err)
		}
	}
	return nil
}
