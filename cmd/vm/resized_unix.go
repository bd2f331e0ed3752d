//go:build unix

package vm

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"bootstrap/internal/guard"
)

// resized reports each change of the terminal's size, until ctx ends.
func resized(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	guard.Go(ctx, func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			select {
			case changed <- struct{}{}:
			default: // a change is reported already
			}
		}
	})
	return changed
}
