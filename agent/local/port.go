package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"bootstrap/internal/listener"
)

// inUse adds the process that uses the address to the error, if it is known.
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
