package instance

import "golang.org/x/sys/unix"

// FileSystem returns the free bytes of dir's file system, and whether programs on it
// cannot be run.
func FileSystem(dir string) (free uint64, noexec bool, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false, err
	}
	return s.Bavail * uint64(s.Bsize), s.Flags&unix.MNT_NOEXEC != 0, nil
}
