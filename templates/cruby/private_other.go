//go:build !unix

package cruby

import "io/fs"

// private accepts every folder: on this system, modes do not say who can write.
func private(info fs.FileInfo) bool { return info.IsDir() }
