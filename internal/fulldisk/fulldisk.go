// Package fulldisk recognizes the errors of a full disk.
package fulldisk

import (
	"errors"
	"slices"
	"strings"
	"syscall"
)

// Is reports whether an error, or one that it wraps, means that a disk is full, or that
// the user's quota is used up.
func Is(err error) bool {
	return slices.ContainsFunc(causes(), func(cause error) bool { return errors.Is(err, cause) })
}

// Says reports whether another program says that its disk is full. Replies of agents and
// CPIs have no code for that, only the text of the system's error, as Go writes it.
func Says(text string) bool { return strings.Contains(text, syscall.ENOSPC.Error()) }
