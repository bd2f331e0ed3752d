package monit

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

const openNonblock = 0

// On Windows, which has neither pid files nor sessions, this package only
// compiles.

func identify(int) (identity, bool)                                   { return identity{}, false }
func (id identity) started() time.Time                                { return time.Time{} }
func usages() map[int]usage                                           { return nil }
func machineMemoryKB() int64                                          { return 0 }
func watchExit(context.Context, int, func()) (cancel func(), ok bool) { return nil, false }
func detach(*exec.Cmd)                                                {}
func reap(int) (bool, error)                                          { return true, errors.ErrUnsupported }
func terminate(int)                                                   {}
func terminateGroup(int)                                              {}
func killGroup(int)                                                   {}
