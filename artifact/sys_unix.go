//go:build unix

package artifact

import (
	"errors"
	"syscall"
)

// notDirectory tells that a path leads through something that is no folder.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
