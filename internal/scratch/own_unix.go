//go:build unix

package scratch

import (
	"io/fs"
	"os"
	"syscall"
)

// own reports whether a folder belongs to this user.
func own(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
