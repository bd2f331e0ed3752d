//go:build unix

package cruby

import (
	"io/fs"
	"os"
	"syscall"
)

// private tells whether a folder is one to which only this user can write. One
// of another user is not, and cannot be made so.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o022 == 0 && int(stat.Uid) == os.Geteuid()
}
