package cpi

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmountBelow unmounts what jobs of a VM that is a folder have mounted below a folder,
// which could not be removed otherwise.
func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // The mounts are unknown; removing the folder reports them.
	}
	var places []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			if place := mountPlace(fields[4]); strings.HasPrefix(place, dir+"/") {
				places = append(places, place)
			}
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

// mountPlace decodes a path in the kernel's list of mounts. See proc_pid_mountinfo(5).
func mountPlace(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		if text[0] == '\\' && len(text) > 3 {
			if code, err := strconv.ParseUint(text[1:4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				text = text[4:]
				continue
			}
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}
