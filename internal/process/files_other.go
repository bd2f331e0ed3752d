//go:build !linux

package process

// Uses returns false: on this operating system only slow tools know which
// processes use a folder.
func Uses(int, string) bool { return false }
