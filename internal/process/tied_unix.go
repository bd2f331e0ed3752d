//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Run runs the command and returns its exit status: -1 with an error if it was killed, 0
// with an error if it could not be started.
//
// The group's leader is a shell that waits for the end of its input, a pipe that only
// this process holds. So the shell notices when this process dies for any reason, and
// kills the group. The shell is waited for last, so that the group's id cannot belong to
// other processes when the group is killed.
func (c Tied) Run(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	leader := exec.Command("/bin/sh", "-c", "read -r _; kill -s KILL 0")
	leader.Env = []string{}
	OwnGroup(leader)
	hold, err := leader.StdinPipe()
	if err != nil {
		return 0, err
	}
	defer hold.Close()
	if err := leader.Start(); err != nil {
		return 0, fmt.Errorf("cannot start /bin/sh: %w", err)
	}
	pgid := leader.Process.Pid
	end := func() { KillGroup(pgid) }
	defer func() {
		end()
		_ = leader.Wait()
	}()

	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) // #nosec G204 -- the caller chose the program
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Out, c.Out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
	cmd.Cancel = func() error { end(); return nil }
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", c.Args[0], err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	case exit != nil:
		return -1, errors.New(exit.String())
	case err != nil && ctx.Err() != nil:
		return -1, err
	case err != nil:
		return 0, err
	}
	return 0, nil
}
