package monit

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// Config says how a Supervisor works; every field may be left empty.
type Config struct {
	// Command makes the command of a start, stop or exec statement: it
	// chooses environment, folder and paths (argv is as written). Its
	// output must be nil or an *os.File, as a daemon keeps it open. The
	// context is never cancelled. Nil runs argv as it is.
	Command func(ctx context.Context, argv []string) *exec.Cmd
	// Resolve maps the path of a pid file or socket to where it is.
	Resolve func(path string) string
	// Owns tells whether a process can be proven to be one of these jobs;
	// asked when a pid file is older than the process it names.
	Owns func(pid int) bool
	// Report is told what happens; it must not block or call back.
	Report func(Event)

	Cycle     time.Duration // between looks at a process; 1 s. Death is mostly seen at once.
	RuleCycle time.Duration // the "cycle" of rules; 10 s, as releases expect
	Settle    time.Duration // a started process must live so long to be running; 250 ms
	BackOff   time.Duration // before the second restart in a row, doubling up to 30 s; 1 s
}

// Event is something that happened to a service.
type Event struct {
	Time    time.Time
	Service string
	Message string // a sentence part: "process 17 is running"
	Failure bool
}

// States of a Service and, with StateStopped, of all together; the words are
// those of the agent's get_state.
const (
	StateRunning  = "running"
	StateStarting = "starting"
	StateFailing  = "failing"
	StateUnknown  = "unknown" // not monitored
	StateStopped  = "stopped"
)

// Status is what is known of a service.
type Status struct {
	Name      string
	State     string // StateRunning, StateStarting, StateFailing or StateUnknown
	Monitored bool
	Message   string // why it fails, as monit says it first: "Does not exist", "Execution failed: exit status 1"
	PID       int    // 0: no process
	Uptime    time.Duration
	MemKB     int     // with descendants, like the following
	MemPct    float64 // of the machine's
	CPUPct    float64 // of all processors, since the last look
	Restarts  int     // not asked for by Start
}

// Supervisor runs the processes of a set of checks.
type Supervisor struct {
	cfg Config
}

// New makes a Supervisor without services; Close it.
func New(cfg Config) *Supervisor { return &Supervisor{cfg: cfg} }

// Load replaces the set of services. A service that stays keeps its state; a
// new one is not monitored until Start; a process of one that goes is left
// alone. Checks that are no processes are passed over. A name used twice, a
// dependency that is not there and a circle are errors, and change nothing.
func (s *Supervisor) Load(checks []Check) error { return errors.New("not built") }

// Start has every service monitored and running, dependencies first, and
// returns at once. A service whose process already lives is taken over.
func (s *Supervisor) Start() {}

// Stop stops every service, dependents first, and waits until no process is
// left or ctx ends. The error is a *StopError naming what is left. With
// ctx already done it only asks.
func (s *Supervisor) Stop(ctx context.Context) error { return nil }

// Unmonitor has every service left alone, whatever happens to it. A restart
// under way is finished first.
func (s *Supervisor) Unmonitor() {}

// Status is what is known of each service, in the order of Load.
func (s *Supervisor) Status() []Status { return nil }

// State sums up as the agent's job_state: StateStopped after Stop, else
// StateStarting if a service is, StateFailing if one does not run or is not
// monitored, StateRunning otherwise, also without services.
func (s *Supervisor) State() string { return StateRunning }

// Close ends supervision and leaves all processes running.
func (s *Supervisor) Close() {}

// StopError names the services that did not stop, with the reason of each.
type StopError struct {
	Services []Status
	Cause    error // of the context that ended; nil if the stop programs gave up
}

// Error lists names and reasons.
func (e *StopError) Error() string { return "cannot stop" }
