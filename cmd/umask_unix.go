//go:build unix

package cmd

import "syscall"

// restrictUmask keeps others from writing to what this program and its
// children make, whatever umask it was started with.
func restrictUmask() { syscall.Umask(syscall.Umask(0o077) | 0o022) }
