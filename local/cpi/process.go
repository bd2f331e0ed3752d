package cpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/internal/wait"
	"bootstrap/local/namespace"
)

// Time between TERM and KILL, and the limit for ending all processes.
const (
	gracePeriod = 5 * time.Second
	endPeriod   = 30 * time.Second
)

// agentStart is how long a call waits for the agent. If the agent is still running then,
// it counts as slow, which is not an error.
const agentStart = 30 * time.Second

var errStarting = errors.New("it is still starting")

// startAgent starts the agent of a VM that is a folder as a process that survives this
// call and inherits nothing from it. It returns when the agent is ready. If the agent has
// ended, the error is the agent's.
func startAgent(ctx context.Context, self, dir string) error {
	log, program, err := prepareStart(self, dir)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, "plugin", "agent", dir) // #nosec G204 -- this program
	cmd.Dir = dir
	cmd.Env = environment(dir)
	cmd.Stdout, cmd.Stderr = log, log
	process.OwnSession(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := guard.Start(ctx, cmd.Wait) // The agent's report explains more than its exit status.
	return awaitAgent(ctx, dir, cmd.Process.Pid, ended)
}

// prepareStart opens the log of the VM in dir, and returns the path of this
// program.
func prepareStart(self, dir string) (log *os.File, program string, err error) {
	if err := closeOnExec(); err != nil {
		return nil, "", err
	}
	if program, err = exec.LookPath(self); err != nil {
		return nil, "", err
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, "", err
	}
	log, err = os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return log, program, err
}

// environment returns the environment of the first processes of the VM in dir.
func environment(dir string) []string {
	env := []string{mark(dir)}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// anyPID is used if the agent's process id is valid only inside of its VM.
const anyPID = 0

// awaitAgent waits until the agent reports that it is ready, or ends.
func awaitAgent(ctx context.Context, dir string, pid int, ended <-chan error) error {
	limited, cancel := context.WithTimeoutCause(ctx, agentStart, errStarting)
	defer cancel()
	err := wait.Poll(limited, 5*time.Millisecond, func() (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("it ended at once: %s", lastWords(dir, pid))
		default:
		}
		report, err := reportOf(dir)
		return err == nil && report.Ready && (report.PID == pid || pid == anyPID), nil
	})
	if errors.Is(err, errStarting) {
		return nil
	}
	return err
}

// lastWords returns why an agent ended: its report, or the end of its log. The report may
// be that of an earlier agent.
func lastWords(dir string, pid int) string {
	if report, err := reportOf(dir); err == nil && (report.PID == pid || pid == anyPID) && report.Ended != "" {
		return report.Ended
	}
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err == nil && lines[len(lines)-1] != "" {
		return lines[len(lines)-1]
	}
	return "it did not say why"
}

func reportOf(dir string) (agent.BootReport, error) {
	var report agent.BootReport
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	return report, err
}

// mark returns the environment variable of every process of the VM in dir.
func mark(dir string) string { return "VCAP_ROOT=" + filepath.Join(dir, vcapDir) }

// endVM ends the agent of the VM in dir first, because it would restart other processes,
// and then the other processes of the VM. The processes of a VM of namespaces end with
// its first process, the only one with the mark.
func endVM(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, endPeriod)
	defer cancel()
	if !agent.Isolated(machineOf(dir)) {
		err := process.EndAll(ctx, gracePeriod, func() ([]int, error) {
			pid, err := agentOf(dir)
			if err != nil || pid == 0 {
				return nil, err
			}
			return []int{pid}, nil
		})
		if err != nil {
			return err
		}
	}
	err := process.EndAll(ctx, gracePeriod, func() ([]int, error) {
		pids, err := process.WithVariable(ctx, mark(dir))
		if first, runs := namespace.First(dir); runs && !slices.Contains(pids, first) {
			pids = append(pids, first)
		}
		return pids, err
	})
	if err != nil {
		return err
	}
	return release(ctx, dir)
}

// agentOf returns the process id of the agent of the VM in dir from its lock file; 0 if
// the file is not locked.
func agentOf(dir string) (int, error) {
	path := filepath.Join(dir, lockFile)
	if locked, err := isLocked(path); err != nil || !locked {
		return 0, err
	}
	// An agent that has just locked the file may not have written its id yet; its mark
	// identifies it.
	report, err := reportOf(dir)
	if err != nil || report.PID <= 1 || report.PID == os.Getpid() {
		return 0, nil
	}
	return report.PID, nil
}
