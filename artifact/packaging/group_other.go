//go:build !unix

package packaging

import (
	"context"
	"errors"
	"os"
)

// command is a process to run in its own group, with its output in a file.
type command struct {
	Args []string
	Dir  string
	Env  []string
	Out  *os.File
}

// runGroup fails: packaging scripts are bash scripts for Linux and macOS.
func runGroup(context.Context, command) (int, error) {
	return 0, errors.New("packages cannot be compiled on this operating system")
}
