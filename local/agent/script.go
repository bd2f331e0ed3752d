package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"

	"bootstrap/internal/process"
)

// How long a script may take to end after a message canceled it, and when the agent
// itself must end.
const (
	cancelGrace = 10 * time.Second
	endGrace    = 2 * time.Second
)

// scripts runs the scripts of the jobs.
type scripts struct {
	vm    machine.VM
	log   *slog.Logger
	specs specs
	jobs  *jobs
}

// run runs a script in a process group of its own, and kills the group when ctx ends;
// then the error is the cause of ctx. The output must go to files.
func run(ctx context.Context, cmd *exec.Cmd, started func(pid int)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	process.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	ended, err := process.Wait(ctx, cmd, func() time.Duration {
		if errors.Is(context.Cause(ctx), errCanceled) {
			return cancelGrace
		}
		return endGrace
	})
	if ended {
		return context.Cause(ctx)
	}
	return err
}

// exited reports whether run failed because the process ended with a failure.
func exited(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

// scriptOptions is the second argument of run_script.
type scriptOptions struct {
	Env map[string]string `json:"env"`
}

// runScript is the message run_script: it runs the script with one name of every job, all
// at the same time.
func (sc scripts) runScript(ctx context.Context, c *call) (any, error) {
	var name string
	var options scriptOptions
	if err := c.bind(2, &name, &options); err != nil {
		return nil, err
	}
	s, err := sc.specs.read()
	if err != nil {
		return nil, failf("Getting current spec: %w", err)
	}
	if name == "pre-start" {
		sc.jobs.marks.begins(true)
	}
	var env []string
	for _, key := range slices.Sorted(maps.Keys(options.Env)) {
		env = append(env, key+"="+options.Env[key])
	}
	err = sc.eachJob(s, name, func(job, script string) error {
		return sc.logged(ctx, job, name, script, env)
	})
	return struct{}{}, err
}

// eachJob runs bin/NAME of the jobs in parallel and waits for all; the error
// names the jobs whose script failed.
func (sc scripts) eachJob(s *spec, name string, run func(job, script string) error) error {
	type result struct {
		job string
		err error
	}
	var running errgroup.Group
	results := make(chan result)
	started := 0
	for _, t := range s.templates() {
		script := sc.vm.Path("jobs", t.Name, "bin", name)
		if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		started++
		running.Go(guard.Func(func() error {
			results <- result{t.Name, guard.Call(func() error { return run(t.Name, script) })}
			return nil
		}))
	}
	var failed, passed []string
	for range started {
		r := <-results
		if r.err == nil {
			passed = append(passed, r.job)
			continue
		}
		failed = append(failed, r.job)
		sc.log.Error("a script failed", "script", name, "job", r.job, "cause", r.err)
	}
	if len(failed) == 0 {
		return nil
	}
	text := "Failed Jobs: " + strings.Join(failed, ", ")
	if len(passed) > 0 {
		text += ". Successful Jobs: " + strings.Join(passed, ", ")
	}
	return failf("%d of %d %s scripts failed. %s.", len(failed), started, name, text)
}

// logged runs a script and appends its output to the job's log files.
func (sc scripts) logged(ctx context.Context, job, name, script string, env []string) error {
	cmd := sc.vm.Command([]string{script}, env...)
	for _, out := range []struct {
		suffix string
		to     func(*os.File)
	}{
		{".stdout.log", func(f *os.File) { cmd.Stdout = f }},
		{".stderr.log", func(f *os.File) { cmd.Stderr = f }},
	} {
		file := sc.vm.Path("sys", "log", job, name+out.suffix)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
		if err != nil {
			return err
		}
		defer f.Close()
		out.to(f)
	}
	return run(ctx, cmd, process.LowerPriority)
}

// drainParams are the arguments and the environment of a drain script.
type drainParams struct {
	args        []string
	state, next string // JSON; next may be empty
}

func jobState(s *spec) string {
	data, _ := json.Marshal(struct {
		PersistentDisk int `json:"persistent_disk"`
	}{s.PersistentDisk})
	return string(data)
}

// drain is the message drain: it ends the supervision of the jobs, so that
// their processes may end, and runs the drain scripts.
func (sc scripts) drain(ctx context.Context, c *call) (any, error) {
	var kind string
	var next *spec
	if err := c.bind(1, &kind, &next); err != nil {
		return nil, err
	}
	s, err := sc.specs.read()
	if err != nil {
		return nil, failf("Getting current spec: %w", err)
	}
	params, err := drainParamsOf(kind, s, next)
	if err != nil {
		return nil, err
	}
	if err := sc.jobs.unmonitor(); err != nil {
		return nil, failf("Unmonitoring services: %w", err)
	}
	err = sc.eachJob(s, "drain", func(_, script string) error { return sc.drainJob(ctx, script, params) })
	if errors.Is(context.Cause(ctx), errCanceled) {
		return 0, nil // the real agent answers this
	}
	return 0, err
}

func drainParamsOf(kind string, s, next *spec) (drainParams, error) {
	p := drainParams{state: jobState(s)}
	if next != nil {
		p.next = jobState(next)
	}
	switch kind {
	case "status":
		return p, failf("Unexpected call with drain type 'status'")
	case "update":
		if next == nil {
			return p, failf("Drain update requires new spec")
		}
		p.args = append(p.args, "job_changed", "hash_changed")
		if len(s.templates()) == 0 {
			p.args[0] = "job_new"
		}
		switch s.ConfigurationHash {
		case "":
			p.args[1] = "hash_new"
		case next.ConfigurationHash:
			p.args[1] = "hash_unchanged"
		}
		var updated []string
		for _, pkg := range next.Packages {
			if old, found := s.Packages[pkg.Name]; !found || old.SHA1.String() != pkg.SHA1.String() {
				updated = append(updated, pkg.Name)
			}
		}
		slices.Sort(updated)
		p.args = append(p.args, updated...)
	case "shutdown":
		p.args = []string{"job_shutdown", "hash_unchanged"}
	default:
		return p, failf("cannot drain: the type must be shutdown or update, not '%s'", kind)
	}
	return p, nil
}

// drainJob runs one script. If the script prints n >= 0, the drain ends after n seconds
// (static); after a negative number -n, the script is run again after n seconds
// (dynamic).
func (sc scripts) drainJob(ctx context.Context, script string, p drainParams) error {
	for {
		seconds, err := sc.drainOnce(ctx, script, p)
		if err != nil {
			return err
		}
		if err := wait.For(ctx, time.Duration(max(seconds, -seconds))*time.Second); err != nil {
			return err
		}
		if seconds >= 0 {
			return nil
		}
		p.args, p.next = []string{"job_check_status", "hash_unchanged"}, ""
	}
}

func (sc scripts) drainOnce(ctx context.Context, script string, p drainParams) (int, error) {
	env := []string{"BOSH_JOB_STATE=" + p.state}
	if p.next != "" {
		env = append(env, "BOSH_JOB_NEXT_STATE="+p.next)
	}
	out, err := sc.vm.NewOutput()
	if err != nil {
		return 0, err
	}
	defer out.Remove()
	cmd := sc.vm.Command(append([]string{script}, p.args...), env...)
	cmd.Stdout = out.File
	// Only the number counts, not the exit status.
	if err := run(ctx, cmd, nil); !exited(err) {
		return 0, failf("Running drain script: %w", err)
	}
	text, err := out.Text()
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, failf("Script did not return a signed integer: %w", err)
	}
	if seconds > drainLimit || seconds < -drainLimit {
		return 0, failf("Script asks to wait for %d seconds, more than the limit of %d", seconds, drainLimit)
	}
	return seconds, nil
}

// drainLimit is the longest time, in seconds, that a drain script may ask to wait; a longer
// one would not fit into a time.Duration.
const drainLimit = 7 * 24 * 60 * 60

// errandResult is the value of run_errand.
type errandResult struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// runErrand is the message run_errand: it runs bin/run of a job.
func (sc scripts) runErrand(ctx context.Context, c *call) (any, error) {
	var name string
	if err := c.bind(0, &name); err != nil {
		return nil, err
	}
	s, err := sc.specs.read()
	if err != nil {
		return nil, failf("Getting current spec: %w", err)
	}
	switch {
	case len(c.args) == 0 && s.Job.Template == "":
		return nil, failf("At least one job template is required to run an errand")
	case len(c.args) == 0:
		name = s.Job.Template
	case !slices.ContainsFunc(s.Job.Templates, func(t specTemplate) bool { return t.Name == name }):
		return nil, failf("Could not find errand %s", name)
	}
	stdout, err := sc.vm.NewOutput()
	if err != nil {
		return nil, err
	}
	defer stdout.Remove()
	stderr, err := sc.vm.NewOutput()
	if err != nil {
		return nil, err
	}
	defer stderr.Remove()
	cmd := sc.vm.Command([]string{sc.vm.Path("jobs", name, "bin", "run")})
	cmd.Stdout, cmd.Stderr = stdout.File, stderr.File
	err = run(ctx, cmd, nil)
	canceled := errors.Is(err, errCanceled)
	if !exited(err) && !canceled {
		return nil, failf("Running errand script: %w", err)
	}
	var r errandResult
	if r.Stdout, err = stdout.Text(); err != nil {
		return nil, err
	}
	if r.Stderr, err = stderr.Text(); err != nil {
		return nil, err
	}
	if cmd.ProcessState != nil {
		r.ExitCode = process.ExitCode(cmd.ProcessState)
	}
	return r, nil
}
