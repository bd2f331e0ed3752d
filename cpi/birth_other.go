//go:build !linux && !darwin

package cpi

// birthOf is not supported here.
func birthOf(int) (string, bool) { return "", false }
