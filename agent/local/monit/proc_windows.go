package monit

import "errors"

const openNonblock = 0

// On Windows, which has neither pid files nor sessions, this package only
// compiles.

func reap(int) (bool, error) { return true, errors.ErrUnsupported }
