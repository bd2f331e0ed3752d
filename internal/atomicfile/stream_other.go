//go:build !unix

package atomicfile

// WriteOnly returns false: this operating system has no paths of open files.
func WriteOnly(string) bool { return false }
