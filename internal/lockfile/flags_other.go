//go:build !unix

package lockfile

// Named pipes and links of that kind are not files on this operating system.
const (
	noFollow    = 0
	nonBlocking = 0
)
