//go:build !unix

package cruby

import "io/fs"

// private takes the folder as it is: modes say nothing about who can write.
func private(info fs.FileInfo) bool { return info.IsDir() }
