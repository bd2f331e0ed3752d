// Package process starts, finds and ends processes of this machine.
package process

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// Wait waits for the end of a started command that has its own group. When ctx
// ends first, the group gets TERM and, if it still runs after grace, KILL; ended
// is true then.
func Wait(ctx context.Context, cmd *exec.Cmd, grace func() time.Duration) (ended bool, err error) {
	done := guard.Start(ctx, cmd.Wait)
	select {
	case err := <-done:
		return false, err
	case <-ctx.Done():
	}
	TerminateGroup(cmd.Process.Pid)
	timer := time.NewTimer(grace())
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
	}
	KillGroup(cmd.Process.Pid)
	return true, <-done
}

// endPause is the pause between two checks whether processes have ended.
const endPause = 20 * time.Millisecond

// EndAll ends the processes that list returns, until it returns none: each gets
// TERM once, and KILL if it still exists after grace.
func EndAll(ctx context.Context, grace time.Duration, list func() ([]int, error)) error {
	asked := map[int]bool{}
	kill := time.Now().Add(grace)
	for {
		pids, err := list()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			switch {
			case time.Now().After(kill):
				Kill(pid)
			case !asked[pid]:
				asked[pid] = true
				Terminate(pid)
			}
		}
		if err := wait.For(ctx, endPause); err != nil {
			return fmt.Errorf("processes %v do not end: %w", pids, err)
		}
	}
}
