//go:build !unix

package cmd

// restrictUmask does nothing on this system.
func restrictUmask() {}
