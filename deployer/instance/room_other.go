//go:build !linux && !darwin

package instance

import "errors"

// FileSystem is not implemented for this operating system.
func FileSystem(string) (free uint64, noexec bool, err error) {
	return 0, false, errors.ErrUnsupported
}
