//go:build !unix

package file

// writeFull does nothing: only Unix can limit the size of files.
func writeFull(string) int { return 1 }
