//go:build !unix

package artifact

// notDirectory is part of "does not exist" on these systems.
func notDirectory(error) bool { return false }
