//go:build !unix

package regular

// nonBlocking has no flag here: named pipes are not files on this operating system.
const nonBlocking = 0
