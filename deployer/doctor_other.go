//go:build !linux && !darwin

package deployer

import "errors"

// fileSystem is not known how to be asked here.
func fileSystem(string) (free uint64, noexec bool, err error) {
	return 0, false, errors.ErrUnsupported
}
