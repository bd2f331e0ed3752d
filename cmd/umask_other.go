//go:build !unix

package cmd

// restrictUmask has nothing to do here.
func restrictUmask() {}
