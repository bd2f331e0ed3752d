//go:build !unix

package file

// writeFull limits the size of files, which only Unix can.
func writeFull(string) int { return 1 }
