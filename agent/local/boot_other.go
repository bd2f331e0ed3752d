//go:build !linux && !darwin

package local

// machineBoot would name the time since the machine started.
func machineBoot() string { return "" }
