package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// How long processes get between TERM and KILL, and all of it at most.
const (
	gracePeriod = 5 * time.Second
	endPeriod   = 30 * time.Second
)

// startAgent starts the agent of the VM in dir, detached: it outlives this
// call, and takes nothing of it along.
func startAgent(self, dir string) error {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := closeOnExec(); err != nil {
		return err
	}
	program, err := exec.LookPath(self)
	if err != nil {
		return err
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	cmd := exec.Command(program, "plugin", "agent", dir)
	cmd.Dir = dir
	cmd.Env = []string{mark(dir)}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// mark is the environment variable that every process of the VM in dir has.
func mark(dir string) string { return "VCAP_ROOT=" + filepath.Join(dir, vcapDir) }

// endVM ends the agent of the VM in dir, so that nothing is restarted, and
// then every other process of the VM.
func endVM(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, endPeriod)
	defer cancel()
	err := end(ctx, func() ([]int, error) {
		pid, err := agentOf(dir)
		if err != nil || pid == 0 {
			return nil, err
		}
		return []int{pid}, nil
	})
	if err != nil {
		return err
	}
	return end(ctx, func() ([]int, error) { return marked(ctx, mark(dir)) })
}

// end ends what list finds, until it finds nothing: TERM to each process once,
// then KILL.
func end(ctx context.Context, list func() ([]int, error)) error {
	told := map[int]bool{}
	kill := time.Now().Add(gracePeriod)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pids, err := list()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			switch {
			case time.Now().After(kill):
				signal(pid, true)
			case !told[pid]:
				told[pid] = true
				signal(pid, false)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("processes %v do not end: %w", pids, context.Cause(ctx))
		}
	}
}

// agentOf is the process id of the agent of the VM in dir: the one in its lock
// file, if that is locked; else 0.
func agentOf(dir string) (int, error) {
	path := filepath.Join(dir, lockFile)
	if locked, err := isLocked(path); err != nil || !locked {
		return 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var holder struct {
		PID int `json:"pid"`
	}
	// An agent that has just locked it has not written it yet; its mark
	// finds it then.
	if json.Unmarshal(text, &holder) != nil || holder.PID <= 1 || holder.PID == os.Getpid() {
		return 0, nil
	}
	return holder.PID, nil
}
