// Package process starts, finds and ends processes of this machine.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// Terminate asks a child to end. If the child was waited for, nothing gets a signal, even
// if another process has its id now. On Windows it does nothing: a process can only be
// killed.
func Terminate(child *os.Process) { _ = child.Signal(syscall.SIGTERM) }

// Wait waits for the end of a started command that has its own group. When ctx ends
// first, ended is true, and the group gets TERM; if the command still runs after grace,
// the group gets KILL. When the command has then ended, the rest of the group gets KILL.
func Wait(ctx context.Context, cmd *exec.Cmd, grace func() time.Duration) (ended bool, err error) {
	pid := cmd.Process.Pid
	// As long as nobody has waited for the command, its id, which is also that of the
	// group, cannot belong to another process.
	exited := guard.Start(ctx, func() error { return awaitExit(pid) })
	select {
	case <-exited:
	case <-ctx.Done():
		endGroup(pid, grace, exited)
		KillGroup(pid)
		return true, cmd.Wait()
	}
	// Processes that the command has started may still hold its output open.
	done := guard.Start(ctx, cmd.Wait)
	select {
	case err := <-done:
		return false, err
	case <-ctx.Done():
	}
	endGroup(pid, grace, done)
	return true, <-done
}

// endGroup ends a group, by TERM and after grace by KILL, until its end is reported.
func endGroup(id int, grace func() time.Duration, ended <-chan error) {
	TerminateGroup(id)
	timer := time.NewTimer(grace())
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		KillGroup(id)
	}
}

// endPause is the pause between two checks whether processes have ended.
const endPause = 20 * time.Millisecond

// EndAll ends the processes that list returns, until list returns none and all of them
// have ended: each process gets TERM once, and KILL if it still exists after grace.
func EndAll(ctx context.Context, grace time.Duration, list func() ([]int, error)) error {
	seen := map[int]Identity{}
	kill := time.Now().Add(grace)
	for {
		pids, err := list()
		if err != nil {
			return err
		}
		// A process that is ending does not show its environment any more. In a VM that
		// consists of namespaces, the first process ends after all others.
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
			if !runs {
				continue
			}
			asked := seen[pid] == id
			seen[pid] = id
			switch {
			case time.Now().After(kill):
				id.Kill()
			case !asked:
				id.Terminate()
			}
		}
		if err := wait.For(ctx, endPause); err != nil {
			return fmt.Errorf("processes %v do not end: %w", pids, err)
		}
	}
}
