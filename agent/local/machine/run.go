package machine

import (
	"context"
	"os/exec"
	"time"

	"bootstrap/internal/guard"
)

// Wait waits for the end of a started command that OwnGroup was called for. When
// ctx ends first, the command's process group gets TERM and, if it still runs
// after grace, KILL; ended is true then.
func Wait(ctx context.Context, cmd *exec.Cmd, grace func() time.Duration) (ended bool, err error) {
	done := guard.Start(ctx, cmd.Wait)
	select {
	case err := <-done:
		return false, err
	case <-ctx.Done():
	}
	endGroup(cmd.Process.Pid, false)
	timer := time.NewTimer(grace())
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
	}
	endGroup(cmd.Process.Pid, true)
	return true, <-done
}
