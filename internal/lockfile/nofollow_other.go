//go:build !unix

package lockfile

const noFollow = 0
