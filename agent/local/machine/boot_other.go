//go:build !linux && !darwin

package machine

// BootID is always empty here: the starts of this machine cannot be told apart.
func BootID() string { return "" }
