//go:build !unix

package scratch

import "io/fs"

// own reports whether a folder belongs to this user, whose temporary folder is no one
// else's here.
func own(fs.FileInfo) bool { return true }
