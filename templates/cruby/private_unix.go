//go:build unix

package cruby

import (
	"io/fs"
	"os"
	"syscall"
)

// private reports whether only this user can write to a folder. A folder of another
// user cannot be made private.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o022 == 0 && int(stat.Uid) == os.Geteuid()
}
