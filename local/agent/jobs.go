package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/monitfile"
	"bootstrap/internal/process"
	"bootstrap/internal/removal"
	"bootstrap/local/machine"
	"bootstrap/local/monit"
)

// stopTimeout is how long a stop of protocol 3 waits for processes to end.
const stopTimeout = 5 * time.Minute

// stateStopped is the job state after a stop, even if processes still run.
const stateStopped = "stopped"

// jobs are the jobs of the VM: apply installs them, and start puts them under
// supervision.
type jobs struct {
	vm         machine.VM
	log        *slog.Logger
	settings   *settings
	specs      specs
	bundles    bundles
	supervisor *monit.Supervisor
	marks      *logMarks

	mu     sync.Mutex  // one start, apply or unmonitor at a time
	booted atomic.Bool // boot puts the jobs under supervision, or has done so

	refused atomic.Pointer[string] // why the monit files could not be read; nil: they were

	health   sync.Mutex // held while the state is recorded
	recorded string     // the last state that was recorded; empty: none yet
}

// newJobs creates the supervision, without any service yet; the caller must Close the
// supervisor.
func newJobs(ctx context.Context, vm machine.VM, log *slog.Logger, settings *settings, specs specs, bundles bundles) *jobs {
	j := &jobs{vm: vm, log: log, settings: settings, specs: specs, bundles: bundles, marks: &logMarks{vm: vm}}
	j.supervisor = monit.New(ctx, monit.Config{
		Looked: func() {
			if j.booted.Load() { // before it, j.supervisor may not be set
				j.recordHealth()
			}
		},
		// Releases use paths below /var/vcap.
		Command: func(_ context.Context, argv []string) *exec.Cmd {
			mapped := make([]string, len(argv))
			for i, arg := range argv {
				mapped[i] = vm.ResolveAll(arg)
			}
			return vm.Command(mapped)
		},
		Resolve: vm.Resolve,
		Report: func(e monit.Event) {
			if e.Failure {
				log.Warn("monit: "+e.Message, "service", e.Service)
			} else {
				log.Info("monit: "+e.Message, "service", e.Service)
			}
		},
	})
	return j
}

func (j *jobs) stoppedFile() string { return j.vm.Path("monit", "stopped") }

// unmonitoredFile exists while the jobs are being drained, even if the agent restarts;
// monit has this in its state file.
func (j *jobs) unmonitoredFile() string { return j.vm.Path("monit", "unmonitored") }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// boot puts the jobs of the last start under supervision. It finds or starts those again
// that were running when the agent or the VM ended, without any script.
func (j *jobs) boot() error {
	if err := j.forgetPIDs(); err != nil {
		return fmt.Errorf("cannot remove the pid files from before the machine's restart: %w", err)
	}
	if err := j.bundles.refreshBPM(); err != nil {
		j.log.Error("bpm cannot be written", "cause", err)
	}
	j.booted.Store(true)
	if err := j.reload(); err != nil {
		// The agent starts anyway, because the VM could not be repaired without it.
		j.log.Error("the jobs cannot be supervised", "cause", err)
		return nil
	}
	switch {
	case exists(j.stoppedFile()):
		j.supervisor.StopAsync() // The agent may have been killed during a stop.
	case !exists(j.unmonitoredFile()):
		j.supervisor.Start()
	}
	j.recordHealth()
	return nil
}

// reload makes the supervisor read the files that start has written below
// monit/job. If it refuses one, no job is supervised: the real monit ends then.
func (j *jobs) reload() error {
	err := j.load()
	j.refused.Store(nil)
	if err != nil {
		why := err.Error()
		j.refused.Store(&why)
	}
	return err
}

func (j *jobs) load() error {
	files, err := filepath.Glob(j.vm.Path("monit", "job", "*.monitrc"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var checks []monitfile.Check
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(j.vm.Root(), file)
		if err != nil {
			return err
		}
		parsed, err := monitfile.Parse(filepath.ToSlash(name), text)
		if err != nil {
			return fmt.Errorf("monit refuses a job's monit file: %w", err)
		}
		for i := range parsed {
			if j.vm.ChangesUsers() {
				parsed[i].RunAs(j.vm.As)
			}
		}
		checks = append(checks, parsed...)
	}
	for _, s := range monitfile.Unsupported(checks) {
		j.log.Warn("monit: a statement is not supported", "statement", s.String())
	}
	if err := j.supervisor.Load(checks); err != nil {
		return fmt.Errorf("monit refuses the monit files of the jobs: %w", err)
	}
	return nil
}

// start is the message start: it puts the installed jobs under supervision and starts
// them. It does not wait until they run.
func (j *jobs) start(_ context.Context, c *call) (any, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, err := j.specs.read()
	if err != nil {
		return nil, failf("Getting apply spec: %w", err)
	}
	j.marks.begins(false)
	templates := s.templates()
	for i := range templates {
		t := templates[len(templates)-1-i]
		if err := j.configure(s, t, i); err != nil {
			return nil, failf("Configuring jobs: Configuring job %s: %w", t.Name, err)
		}
	}
	if err := j.reload(); err != nil {
		return nil, failf("Configuring jobs: Reloading jobSupervisor: %w", err)
	}
	j.supervisor.Start()
	if err := removeFiles(j.stoppedFile(), j.unmonitoredFile()); err != nil {
		return nil, failf("Starting Monitored Services: Removing stopped File: %w", err)
	}
	j.recordHealth()
	return "started", nil
}

// configure copies the monit files of a job to the folder that reload reads.
func (j *jobs) configure(s *spec, t specTemplate, index int) error {
	dir, err := j.bundles.jobInstall(s, t)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return failf("Looking up job directory: install dir does not exist")
	}
	files, err := monitFiles(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(j.vm.Path("monit", "job"), 0o755); err != nil {
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
		target := j.vm.Path("monit", "job", fmt.Sprintf("%04d_%s.monitrc", index, name))
		if err := atomicfile.WriteMode(target, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// monitFiles returns the monit files of a job in the folder dir.
func monitFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.monit"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	if main := filepath.Join(dir, "monit"); exists(main) {
		files = append([]string{main}, files...)
	}
	return files, nil
}

// stop is the message stop: from protocol 3 on, it waits until all processes have
// ended.
func (j *jobs) stop(ctx context.Context, c *call) (any, error) {
	j.marks.ends()
	// The file is written first: if this agent is killed, the next one must not start the
	// jobs again.
	if err := atomicfile.WriteMode(j.stoppedFile(), nil, 0o644); err != nil {
		return nil, failf("Stopping Monitored Services: Creating stopped File: %w", err)
	}
	if c.protocol < 3 {
		j.supervisor.StopAsync()
		j.recordHealth()
		return "stopped", nil
	}
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := j.supervisor.Stop(limited)
	j.recordHealth()
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
		j.log.Error("a service does not stop", "service", service.Name, "state", service.State, "cause", service.Message)
	}
	if left.Cause != nil {
		return nil, failf("Stopping Monitored Services: Timed out waiting for services '%s' to stop after 5 minutes", strings.Join(names, ", "))
	}
	return nil, failf("Stopping Monitored Services: Stopping services '%v' errored", names)
}

// unmonitor ends the supervision of the processes, so that drain scripts can end them.
func (j *jobs) unmonitor() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := atomicfile.WriteMode(j.unmonitoredFile(), nil, 0o644); err != nil {
		return err
	}
	j.supervisor.Unmonitor()
	j.recordHealth()
	return nil
}

// forget removes all services from the supervision when apply changes the jobs; their
// processes continue.
func (j *jobs) forget() error { return removal.Tree(j.vm.Path("monit", "job")) }

func (j *jobs) state() string {
	switch {
	case exists(j.stoppedFile()):
		return stateStopped
	case j.refused.Load() != nil:
		return monit.StateUnknown
	}
	return j.supervisor.State()
}

// note says why no job is supervised; empty: they are.
func (j *jobs) note() string {
	why := j.refused.Load()
	if why == nil {
		return ""
	}
	return "no job is supervised: " + *why
}

// recordHealth writes the state to a file that jobs read. The real agent does so after
// messages and once a minute, this one after messages and whenever the state changes.
func (j *jobs) recordHealth() {
	j.health.Lock()
	defer j.health.Unlock()
	health := struct {
		State string `json:"state"`
	}{j.state()}
	if health.State == j.recorded {
		return
	}
	if err := writeJSON(j.vm.Path("instance", "health.json"), health, 0o644); err != nil {
		j.log.Error("health.json cannot be written", "cause", err)
		return
	}
	j.recorded = health.State
}

// jobProcess is one element of get_state's processes.
type jobProcess struct {
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

// processes lists the processes in monit's order: the last one of the control files
// first.
func (j *jobs) processes() []jobProcess {
	var all []jobProcess
	for _, s := range slices.Backward(j.supervisor.Status()) {
		p := jobProcess{Name: s.Name, State: s.State}
		p.Uptime.Secs = int(s.Uptime / time.Second)
		p.Mem.KB, p.Mem.Percent, p.CPU.Total = s.MemKB, s.MemPct, s.CPUPct
		all = append(all, p)
	}
	return all
}

// forgetPIDs empties sys/run at the first start after a boot of the machine; on a real
// VM, sys/run is in memory. Otherwise jobs could kill new processes that have the ids in
// old pid files.
func (j *jobs) forgetPIDs() error {
	file, now := j.vm.Path("bosh", "machine_boot"), process.BootID()
	last, err := os.ReadFile(file)
	if err == nil && string(last) == now || now == "" {
		return nil
	}
	if err := removeRegular(j.vm.Path("data", "sys", "run")); err != nil {
		return err
	}
	return atomicfile.WriteMode(file, []byte(now), 0o600)
}

// removeRegular removes everything except folders, which jobs expect to exist.
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
