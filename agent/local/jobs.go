package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/agent/local/monit"
)

// stopTimeout is how long a stop of protocol 3 waits for the processes.
const stopTimeout = 5 * time.Minute

// stateStopped is the job state after stop, whatever runs.
const stateStopped = "stopped"

func (v *vm) stoppedFile() string { return v.path("monit", "stopped") }

// unmonitoredFile remembers across a restart of the agent what monit keeps in
// its state file: that the jobs are being drained.
func (v *vm) unmonitoredFile() string { return v.path("monit", "unmonitored") }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// bootJobs begins supervision. Jobs that ran when the agent or the VM ended
// are found or started again, without any hook.
func (v *vm) bootJobs() error {
	v.jobs = monit.New(monit.Config{
		Command: v.monitCommand,
		Resolve: v.resolve,
		Report: func(e monit.Event) {
			if e.Failure {
				v.log.Warn("monit: "+e.Message, "service", e.Service)
			} else {
				v.log.Info("monit: "+e.Message, "service", e.Service)
			}
		},
	})
	if err := v.forgetPIDs(); err != nil {
		return fmt.Errorf("cannot clear the pid files of the last time: %w", err)
	}
	if err := v.reloadJobs(); err != nil {
		// The VM must be reachable, or nobody could repair it.
		v.log.Error("the jobs cannot be supervised", "cause", err)
		return nil
	}
	switch {
	case exists(v.stoppedFile()):
		v.jobs.StopAsync() // the agent may have been killed before all had stopped
	case !exists(v.unmonitoredFile()):
		v.jobs.Start()
	}
	return nil
}

// reloadJobs has the supervisor read what start has put below monit/job.
func (v *vm) reloadJobs() error {
	files, err := filepath.Glob(v.path("monit", "job", "*.monitrc"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var checks []monit.Check
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(v.root, file)
		if err != nil {
			return err
		}
		parsed, err := monit.Parse(filepath.ToSlash(name), text)
		if err != nil {
			return fmt.Errorf("cannot use a job's monit file: %w", err)
		}
		checks = append(checks, parsed...)
	}
	for _, s := range monit.Unsupported(checks) {
		v.log.Warn("monit: a statement is not honoured", "statement", s.String())
	}
	return v.jobs.Load(checks)
}

// start is the message: what apply installed is put under supervision and
// started; it does not wait until all run.
func (v *vm) start(_ context.Context, c *call) (any, error) {
	v.jobsLock.Lock()
	defer v.jobsLock.Unlock()
	s, err := v.readSpec()
	if err != nil {
		return nil, failf("Getting apply spec: %w", err)
	}
	templates := s.templates()
	for i := range templates {
		t := templates[len(templates)-1-i]
		if err := v.configureJob(s, t, i); err != nil {
			return nil, failf("Configuring jobs: Configuring job %s: %w", t.Name, err)
		}
	}
	if err := v.reloadJobs(); err != nil {
		return nil, failf("Configuring jobs: Reloading jobSupervisor: %w", err)
	}
	v.jobs.Start()
	if err := removeFiles(v.stoppedFile(), v.unmonitoredFile()); err != nil {
		return nil, failf("Starting Monitored Services: Removing stopped File: %w", err)
	}
	v.recordHealth()
	return "started", nil
}

// configureJob copies the job's monit files to where they are supervised.
func (v *vm) configureJob(s *spec, t specTemplate, index int) error {
	dir, err := v.jobInstall(s, t)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return failf("Looking up job directory: install dir does not exist")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.monit"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	if main := filepath.Join(dir, "monit"); exists(main) {
		files = append([]string{main}, files...)
	}
	if err := os.MkdirAll(v.path("monit", "job"), 0o755); err != nil {
		return err
	}
	for _, file := range files {
		name := t.Name
		if label, found := strings.CutSuffix(filepath.Base(file), ".monit"); found {
			name += "_" + label
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		target := v.path("monit", "job", fmt.Sprintf("%04d_%s.monitrc", index, name))
		if err := writeFile(target, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// stop is the message: from protocol 3 on it waits until no process is left.
func (v *vm) stop(ctx context.Context, c *call) (any, error) {
	// First, so that an agent that is killed now does not start them again.
	if err := writeFile(v.stoppedFile(), nil, 0o644); err != nil {
		return nil, failf("Stopping Monitored Services: Creating stopped File: %w", err)
	}
	if c.protocol < 3 {
		v.jobs.StopAsync()
		v.recordHealth()
		return "stopped", nil
	}
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := v.jobs.Stop(limited)
	v.recordHealth()
	var left *monit.StopError
	switch {
	case err == nil:
		return "stopped", nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !errors.As(err, &left):
		return nil, failf("Stopping Monitored Services: %w", err)
	}
	var names []string
	for _, service := range left.Services {
		names = append(names, service.Name)
		v.log.Error("a service does not stop", "service", service.Name, "state", service.State, "cause", service.Message)
	}
	if left.Cause != nil {
		return nil, failf("Stopping Monitored Services: Timed out waiting for services '%s' to stop after 5 minutes", strings.Join(names, ", "))
	}
	return nil, failf("Stopping Monitored Services: Stopping services '%v' errored", names)
}

// unmonitor leaves the processes to the drain scripts.
func (v *vm) unmonitor() error {
	v.jobsLock.Lock()
	defer v.jobsLock.Unlock()
	if err := writeFile(v.unmonitoredFile(), nil, 0o644); err != nil {
		return err
	}
	v.jobs.Unmonitor()
	v.recordHealth()
	return nil
}

// forgetJobs is the part of apply that takes the jobs out of supervision;
// their processes are left alone.
func (v *vm) forgetJobs() error { return removeAll(v.path("monit", "job")) }

func (v *vm) jobState() string {
	if exists(v.stoppedFile()) {
		return stateStopped
	}
	return monit.Summary(v.jobs.Status())
}

// recordHealth leaves the state where jobs may read it.
func (v *vm) recordHealth() {
	health := struct {
		State string `json:"state"`
	}{v.jobState()}
	if err := writeJSON(v.path("instance", "health.json"), health, 0o644); err != nil {
		v.log.Error("health.json cannot be written", "cause", err)
	}
}

// process is one element of get_state's processes.
type process struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Uptime struct {
		Secs int `json:"secs,omitempty"`
	} `json:"uptime"`
	Mem struct {
		KB      int     `json:"kb,omitempty"`
		Percent float64 `json:"percent"`
	} `json:"mem"`
	CPU struct {
		Total float64 `json:"total"`
	} `json:"cpu"`
}

// processes lists them as monit does, the last one of the control files first.
func (v *vm) processes() []process {
	var all []process
	for _, s := range slices.Backward(v.jobs.Status()) {
		p := process{Name: s.Name, State: s.State}
		p.Uptime.Secs = int(s.Uptime / time.Second)
		p.Mem.KB, p.Mem.Percent, p.CPU.Total = s.MemKB, s.MemPct, s.CPUPct
		all = append(all, p)
	}
	return all
}

// state is the value of get_state.
type state struct {
	spec
	AgentID   string    `json:"agent_id"`
	JobState  string    `json:"job_state"`
	Vitals    *vitals   `json:"vitals,omitempty"`
	Processes []process `json:"processes,omitempty"`
	VM        struct {
		Name string `json:"name"`
	} `json:"vm"`
}

// getState is the message.
func (v *vm) getState(_ context.Context, c *call) (any, error) {
	var filter string
	if err := c.bind(0, &filter); err != nil {
		return nil, err
	}
	s, err := v.readSpec()
	if err != nil {
		return nil, failf("Getting current spec: %w", err)
	}
	settings := v.settings.get()
	value := state{spec: *s, AgentID: settings.AgentID, JobState: v.jobState(), Processes: v.processes()}
	value.VM.Name = settings.VM.Name
	if filter == "full" {
		value.Vitals = v.vitals()
	}
	if value.Networks == nil {
		value.Networks = map[string]map[string]any{}
	}
	if value.ResourcePool == nil {
		value.ResourcePool = map[string]any{}
	}
	if value.Packages == nil {
		value.Packages = map[string]specPackage{}
	}
	return value, nil
}

// forgetPIDs empties sys/run once after the machine was started, as on a VM,
// where it is in memory: the numbers in old pid files may be anybody's by now,
// and jobs kill what such files name.
func (v *vm) forgetPIDs() error {
	file, now := v.path("bosh", "machine_boot"), machineBoot()
	last, err := os.ReadFile(file)
	if err == nil && string(last) == now || now == "" {
		return nil
	}
	if err := removeRegular(v.path("data", "sys", "run")); err != nil {
		return err
	}
	return writeFile(file, []byte(now), 0o600)
}

// removeRegular removes all that is no folder; jobs count on their folders.
func removeRegular(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Remove(name)
	})
}

func removeFiles(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
