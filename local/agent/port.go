package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"bootstrap/internal/listener"
)

// inUse adds the process that uses the address to the error, if it is known.
func inUse(ctx context.Context, address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%v uses the port: %w", listener.At(ctx, address), err)
}
