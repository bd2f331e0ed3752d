//go:build !linux

package process

import (
	"context"

	"bootstrap/internal/wait"
)

// awaitExit returns when a child has ended, for which somebody still has to wait.
func awaitExit(pid int) error {
	return wait.Poll(context.Background(), endPause, func() (bool, error) { return !Lives(pid), nil })
}
