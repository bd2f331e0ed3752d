//go:build !unix

package values

// nonBlocking has no flag here: pipes are not files on this operating system.
const nonBlocking = 0
