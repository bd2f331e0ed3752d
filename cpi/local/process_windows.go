package local

import (
	"context"
	"errors"
	"os/exec"
)

// The embedded VM needs sessions, signals and the environments of other
// processes. On Windows this package only compiles.

func detach(*exec.Cmd) {}

func closeOnExec() error {
	return errors.New("the embedded CPI makes no VMs on Windows")
}

func signal(int, bool) {}

func isLocked(string) (bool, error) { return false, nil }

func syncDir(string) error { return nil }

func marked(context.Context, string) ([]int, error) { return nil, nil }
