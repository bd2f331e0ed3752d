//go:build !unix

package cmd

// nonBlocking has no flag here: pipes are not files on this operating system.
const nonBlocking = 0
