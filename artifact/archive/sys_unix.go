//go:build unix

package archive

import (
	"errors"
	"syscall"
)

// notDirectory reports whether a path leads through something that is not a folder.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
