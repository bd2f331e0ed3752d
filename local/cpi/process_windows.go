package cpi

import "errors"

// The embedded VM needs sessions, signals and the environments of other processes. On
// Windows this package only compiles.

func closeOnExec() error {
	return errors.New("the embedded CPI makes no VMs on Windows: use WSL 2 or the container image of bootstrap")
}

func isLocked(string) (bool, error) { return false, nil }
