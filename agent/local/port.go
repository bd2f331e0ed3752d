package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// holderTime bounds the search for the process that holds a port.
const holderTime = 3 * time.Second

// commandLength bounds how much of a command is shown.
const commandLength = 120

// inUse adds to the error of an address that is in use which process has it,
// where the system tells.
func inUse(ctx context.Context, address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	_, port, split := net.SplitHostPort(address)
	if split != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	pid, command := portHolder(ctx, port)
	if pid == 0 {
		return fmt.Errorf("another process has the port: %w", err)
	}
	return fmt.Errorf("process %d has the port (%s): %w", pid, shortCommand(command), err)
}

// shortCommand makes a command line fit for a message.
func shortCommand(command string) string {
	command = strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, command), "?")
	if command = strings.TrimSpace(command); len(command) > commandLength {
		command = strings.ToValidUTF8(command[:commandLength], "") + "…"
	}
	return command
}

// namedCommand is the part of a command line that is told.
func namedCommand(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return "its command is not known"
	}
	if len(argv) == 4 && argv[1] == "plugin" && argv[2] == "agent" {
		return "the agent of the embedded VM in " + argv[3]
	}
	return filepath.Base(argv[0])
}
