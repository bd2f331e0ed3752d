//go:build !linux && !darwin

package target

import "errors"

// FileSystem is not known how to be asked here.
func FileSystem(string) (free uint64, noexec bool, err error) {
	return 0, false, errors.ErrUnsupported
}
