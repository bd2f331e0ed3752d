//go:build !linux

package process

// Use returns nothing: on this operating system only slow tools know which
// processes use a folder.
func Use(int, string) string { return "" }

// Name returns nothing.
func Name(int) string { return "" }
