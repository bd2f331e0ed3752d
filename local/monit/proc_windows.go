package monit

import "errors"

// On Windows, without pid files and sessions, this package only compiles.

func reap(int) (bool, error) { return true, errors.New("no processes of jobs run on Windows") }
