package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"bootstrap/internal/listener"
)

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
	return fmt.Errorf("%v has the port: %w", listener.At(ctx, port), err)
}
