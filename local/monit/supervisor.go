// Package monit supervises the processes in the control files of jobs, as monit 5.2.5 does
// in stemcells.
package monit

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/monitfile"
	"bootstrap/internal/process"
)

// Config configures a Supervisor. Every field may be empty.
type Config struct {
	// Command makes the command of a start, stop or exec statement: it chooses
	// environment, folder and paths (argv is unchanged). Its output must be nil or an
	// *os.File, because a daemon keeps it open. The context is never canceled. If Command
	// is nil, argv runs unchanged.
	Command func(ctx context.Context, argv []string) *exec.Cmd
	// Resolve converts the path of a pid file or socket to its path on this machine.
	Resolve func(path string) string
	// Report gets each Event; it must not block or call the Supervisor.
	Report func(Event)
	// Looked is called whenever the Supervisor has looked at the services, at least once in
	// a Cycle if there are any. It must not call Close.
	Looked func()

	Cycle     time.Duration // pause between two checks of a process; 1 s. The end of a process is usually noticed at once.
	RuleCycle time.Duration // length of a "cycle" of rules; 10 s, as releases expect
	Settle    time.Duration // a started process counts as running after this time; 250 ms
	BackOff   time.Duration // pause before the second restart in a row, doubling up to 30 s; 1 s
}

// Event is a change of a service.
type Event struct {
	Time    time.Time
	Service string
	Message string // a part of a sentence: "process 17 is running"
	Failure bool
}

// States of a service, in the words of the agent's get_state.
const (
	StateRunning  = "running"
	StateStarting = "starting"
	StateFailing  = "failing"
	StateUnknown  = "unknown" // it is not monitored
)

// Status is the state of a service.
type Status struct {
	Name      string
	State     string // StateRunning, StateStarting, StateFailing or StateUnknown
	Monitored bool
	Message   string // reason for a failure, beginning with monit's words: "Does not exist", "Execution failed: exit status 1"
	PID       int    // 0: no process
	Uptime    time.Duration
	MemKB     int     // including descendants, as in the following fields
	MemPct    float64 // percent of the machine's memory
	CPUPct    float64 // percent of all processors, since the last Status
	Restarts  int     // restarts that Start did not request
}

// Supervisor runs the processes of a set of checks. Its methods may be called at the same
// time.
type Supervisor struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	services []*service
	children map[int]*program // programs that were not collected yet
	changed  chan struct{}    // closed and replaced after each pass
}

// New returns a Supervisor without services; the caller must call Close. It continues
// after the end of ctx, to whose run it reports panics.
func New(ctx context.Context, cfg Config) *Supervisor {
	if cfg.Command == nil {
		cfg.Command = func(ctx context.Context, argv []string) *exec.Cmd {
			return exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- the programs of monit files are what monit runs
		}
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(path string) string { return path }
	}
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	if cfg.Looked == nil {
		cfg.Looked = func() {}
	}
	for _, d := range []struct {
		of *time.Duration
		is time.Duration
	}{{&cfg.Cycle, time.Second}, {&cfg.RuleCycle, 10 * time.Second}, {&cfg.Settle, 250 * time.Millisecond}, {&cfg.BackOff, time.Second}} {
		if *d.of <= 0 {
			*d.of = d.is
		}
	}
	s := &Supervisor{cfg: cfg, wake: make(chan struct{}, 1), children: map[int]*program{}, changed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done.Go(guard.Part(s.ctx, s.loop))
	return s
}

// Load replaces the set of services. Services with the same name keep their state. A new
// one is not monitored until Start. The process of a removed one continues. Checks of
// anything other than processes are ignored. A duplicate name, a missing dependency and a
// circle of dependencies are errors that change nothing.
func (s *Supervisor) Load(checks []monitfile.Check) error {
	if conflicts := monitfile.Conflicts(checks); len(conflicts) > 0 {
		return conflicts
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.services
	s.services = nil // at the end, old has the removed services
	for _, c := range checks {
		if c.Kind != monitfile.KindProcess || c.PidFile == "" {
			continue
		}
		v := &service{check: c, s: s}
		if i := slices.IndexFunc(old, func(o *service) bool { return o.check.Name == c.Name && o.check.PidFile == c.PidFile }); i >= 0 {
			v = old[i]
			old = slices.Delete(old, i, i+1)
			v.check = c
			v.resetRules()
		}
		s.services = append(s.services, v)
	}
	for _, v := range old {
		v.forget()
	}
	for _, v := range s.services {
		v.requires, v.dependents = nil, nil
		for _, o := range s.services {
			if dependsOn(v, o) {
				v.requires = append(v.requires, o)
			}
			if dependsOn(o, v) {
				v.dependents = append(v.dependents, o)
			}
		}
	}
	s.poke()
	return nil
}

// dependsOn reports whether a names b; as in monit, case does not matter.
func dependsOn(a, b *service) bool {
	return slices.ContainsFunc(a.check.Depends, func(name string) bool { return strings.EqualFold(name, b.check.Name) })
}

// Start monitors and starts every service, dependencies first, and returns at once. A
// running process is adopted.
func (s *Supervisor) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		v.start()
	}
	s.poke()
}

// StopAsync is Stop without the wait.
func (s *Supervisor) StopAsync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		if v.gaveUp {
			v.phase = idle // the stop program may run again
		}
		v.want, v.gaveUp, v.message = wantStopped, false, ""
	}
	s.poke()
}

// Stop stops every service, dependents first, and waits until no process is left, until
// the stop programs of the remaining ones have failed, or until ctx ends. The error is a
// *StopError with the services that are still running.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.StopAsync()
	for {
		s.mu.Lock()
		changed := s.changed
		var left []Status
		waiting := false
		for _, v := range s.services {
			if v.want == wantStopped && !v.down {
				left = append(left, v.status())
				waiting = waiting || !v.gaveUp
			}
		}
		s.mu.Unlock()
		switch {
		case len(left) == 0:
			return nil
		case !waiting:
			return &StopError{Services: left}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &StopError{Services: left, Cause: context.Cause(ctx)}
		case <-s.ctx.Done():
			return &StopError{Services: left, Cause: errors.New("supervision has ended")}
		}
	}
}

// Unmonitor stops monitoring all services; their processes continue.
func (s *Supervisor) Unmonitor() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		v.unmonitor()
	}
	s.poke()
}

// Status returns the state of each service, in the order of Load.
func (s *Supervisor) Status() []Status {
	all := sync.OnceValue(process.Usages) // not needed if no service is running
	return s.each(func(v *service) Status {
		status := v.status()
		v.measure(&status, all)
		return status
	})
}

// State returns the state of all services together; see Summary. Unlike Status, it does
// not measure anything.
func (s *Supervisor) State() string { return Summary(s.each((*service).status)) }

func (s *Supervisor) each(status func(*service) Status) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, len(s.services))
	for i, v := range s.services {
		out[i] = status(v)
	}
	return out
}

// Summary returns the state of all services together: StateStarting if one is starting;
// otherwise StateFailing if one is not running or not monitored; otherwise StateRunning,
// even without services.
func Summary(services []Status) string {
	sum := StateRunning
	for _, s := range services {
		switch {
		case s.State == StateStarting:
			return StateStarting
		case !s.Monitored || s.State != StateRunning:
			sum = StateFailing
		}
	}
	return sum
}

// Close ends supervision and leaves all processes running.
func (s *Supervisor) Close() {
	s.cancel()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		v.forget()
	}
	for _, p := range s.children {
		p.unwatch()
	}
}

// poke makes the loop run a pass at once.
func (s *Supervisor) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Supervisor) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		next := s.pass()
		s.cfg.Looked()
		timer.Reset(time.Until(next))
	}
}

// pass takes all necessary actions until nothing changes any more, and returns when to
// run again.
func (s *Supervisor) pass() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	next := time.Now().Add(time.Minute)
	moved := true
	// A change of a service can unblock services that wait for it. A chain of them is at
	// most as long as the list, and each service changes only a few times.
	for round := 0; moved && round < 4*len(s.services)+1; round++ {
		moved = false
		next = time.Now().Add(time.Minute)
		for _, v := range s.services {
			before := v.snapshot()
			at := v.step(time.Now())
			if at.Before(next) {
				next = at
			}
			moved = moved || v.snapshot() != before
		}
	}
	if moved {
		next = time.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return next
}

// StopError names the services that did not stop, with the reason for each.
type StopError struct {
	Services []Status
	Cause    error // why the context ended; nil if the stop programs failed
}

// Error lists names and reasons.
func (e *StopError) Error() string {
	parts := make([]string, len(e.Services))
	for i, v := range e.Services {
		parts[i] = v.Name
		if v.PID != 0 {
			parts[i] += fmt.Sprintf(" (process %d)", v.PID)
		}
		if v.Message != "" {
			parts[i] += ": " + v.Message
		}
	}
	msg := "cannot stop " + strings.Join(parts, ", ")
	if e.Cause != nil {
		msg += ": " + e.Cause.Error()
	}
	return msg
}

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Cause }
