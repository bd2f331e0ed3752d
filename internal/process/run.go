// Package process starts, finds and ends processes of this machine.
package process

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
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

// EndAll ends the processes that list returns, until it returns none and all that it
// returned have ended: each gets TERM once, and KILL if it still exists after grace.
func EndAll(ctx context.Context, grace time.Duration, list func() ([]int, error)) error {
	seen := map[int]Identity{}
	kill := time.Now().Add(grace)
	for {
		pids, err := list()
		if err != nil {
			return err
		}
		// A process that is ending does not show its environment any more. The first
		// one of a VM of namespaces ends after all others of the VM.
		for pid, id := range seen {
			if id.Alive() && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			id, runs := Identify(pid)
			asked := seen[pid] == id
			if runs {
				seen[pid] = id
			}
			switch {
			case time.Now().After(kill):
				Kill(pid)
			case runs && !asked:
				Terminate(pid)
			}
		}
		if err := wait.For(ctx, endPause); err != nil {
			return fmt.Errorf("processes %v do not end: %w", pids, err)
		}
	}
}
