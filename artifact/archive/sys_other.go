//go:build !unix

package archive

// notDirectory is part of "does not exist" on these systems.
func notDirectory(error) bool { return false }
