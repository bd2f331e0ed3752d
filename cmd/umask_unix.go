//go:build unix

package cmd

import "syscall"

// restrictUmask prevents other users from writing to the files of this program
// and its children, whatever its umask was.
func restrictUmask() { syscall.Umask(syscall.Umask(0o077) | 0o022) }
