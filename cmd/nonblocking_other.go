//go:build !unix

package cmd

// nonBlocking is nothing where pipes are no files.
const nonBlocking = 0
