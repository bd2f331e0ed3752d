//go:build !linux && !darwin

package cpi

// birthOf cannot tell here.
func birthOf(int) (string, bool) { return "", false }
