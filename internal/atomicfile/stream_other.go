//go:build !unix

package atomicfile

// WriteOnly reports whether the path is that of an open file of this process which
// can only be written to: there are no such paths here.
func WriteOnly(string) bool { return false }
