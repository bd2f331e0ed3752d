//go:build !unix

package artifact

func child() int { return 3 }
