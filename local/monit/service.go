package monit

import (
	"fmt"
	"slices"
	"time"

	"bootstrap/internal/monitfile"
	"bootstrap/internal/process"
)

type want int

const (
	wantNothing want = iota // it is not monitored
	wantRunning
	wantStopped
)

type phase int

const (
	idle     phase = iota // no start or stop is in progress
	starting              // the start program was started, and there is no process yet
	settling              // there is a process, which may still fail to start
	running
	stopping // the stop program was started, and the process still exists
)

// A service is one process under supervision. The Supervisor's mutex guards its
// fields.
type service struct {
	s          *Supervisor
	check      monitfile.Check
	requires   []*service
	dependents []*service

	want     want
	phase    phase
	proc     process.Identity // last known process; pid 0: none
	since    time.Time        // when proc began
	unwatch  func()
	run      *program      // last started start, stop or restart program
	deadline time.Time     // when starting or stopping began
	settled  time.Time     // when settling ends
	poll     time.Duration // pause before the next check while starting or stopping
	retry    time.Time     // no start before this time
	fails    int           // consecutive starts whose process ended soon
	message  string        // reason for the failure
	down     bool          // with wantStopped: all processes have ended
	gaveUp   bool          // with wantStopped: the time limit of the stop program is over
	restarts int
	started  bool // it was started since the last Start
	again    bool // a rule or a dependency requires a restart
	cleared  bool // dependents were stopped for the next start or restart

	history  []time.Time // times of restarts, for rules
	rules    []ruleState
	ruleAt   time.Time // time of the next measurement
	ruling   bool      // a measurement is in progress
	ruleMsg  string    // failure found by a rule
	lastCPU  cpuSample
	lastRule cpuSample
}

// snapshot is the state that other services depend on. When it changes, they are checked
// again.
type snapshot struct {
	want         want
	phase        phase
	proc         process.Identity
	again        bool
	down, gaveUp bool
	run          *program
}

func (v *service) snapshot() snapshot {
	return snapshot{v.want, v.phase, v.proc, v.again, v.down, v.gaveUp, v.run}
}

func (v *service) report(failure bool, format string, args ...any) {
	v.s.cfg.Report(Event{Time: time.Now(), Service: v.check.Name, Message: fmt.Sprintf(format, args...), Failure: failure})
}

func (v *service) start() {
	if v.want != wantRunning {
		v.message, v.fails, v.started, v.cleared = "", 0, false, false
		v.history = nil
		v.resetRules()
		if v.phase != stopping {
			v.phase = idle
		}
	} else if _, ok := v.find(); !ok && v.phase == running {
		v.phase = idle // The previous process ended unnoticed: this start replaces it.
	}
	v.retry = time.Time{}
	v.want, v.down, v.gaveUp = wantRunning, false, false
}

func (v *service) unmonitor() {
	v.want, v.message, v.ruleMsg, v.down, v.gaveUp = wantNothing, "", "", false, false
	v.phase, v.again = idle, false
}

// find looks for the process. A known process counts as found while its pid file is
// missing or being written, so that it is never started twice.
func (v *service) find() (process.Identity, bool) {
	path := v.s.cfg.Resolve(v.check.PidFile)
	known := v.proc.PID != 0 && v.proc.Alive()
	if known {
		// For a known process, times need not be compared.
		if pid, _, err := readPid(path); err == nil && pid == v.proc.PID {
			return v.proc, true
		}
	}
	if id, ok := readPidFile(path); ok {
		return id, true
	}
	return v.proc, known
}

// look records the result of find.
func (v *service) look() bool {
	id, ok := v.find()
	if !ok {
		v.forget()
		return false
	}
	if id != v.proc {
		v.forget()
		v.proc, v.since = id, runsSince(id)
		v.unwatch, _ = process.Watch(v.s.ctx, id.PID, v.s.poke)
	}
	return true
}

func (v *service) forget() {
	if v.unwatch != nil {
		v.unwatch()
		v.unwatch = nil
	}
	v.proc, v.since = process.Identity{}, time.Time{}
}

// step takes the next actions and returns when to call it again.
func (v *service) step(now time.Time) time.Time {
	before := v.proc
	alive := v.look()
	switch v.want {
	case wantRunning:
		return v.keep(now, before, alive)
	case wantStopped:
		return v.bringDown(now, alive)
	}
	return now.Add(v.s.cfg.Cycle)
}

// nextCheck returns the time of the next check while a program is running, with growing
// pauses.
func (v *service) nextCheck(now time.Time) time.Time {
	at := now.Add(v.poll)
	v.poll = min(v.poll*3/2, v.s.cfg.Cycle)
	if v.deadline.After(now) && v.deadline.Before(at) {
		return v.deadline
	}
	return at
}

const firstPoll = 20 * time.Millisecond

// keep makes sure that the service is running.
func (v *service) keep(now time.Time, before process.Identity, alive bool) time.Time {
	v.again = v.again && alive
	switch {
	case v.phase == stopping:
		return v.finishStop(now, alive)
	case v.again:
		if !v.clearDependents() {
			return now.Add(v.s.cfg.Cycle)
		}
		v.again = false
		v.halt(now)
		return now.Add(v.poll)
	case !alive && (v.phase == running || v.phase == settling):
		v.died(now, before)
		return now
	case alive && (v.phase == idle || v.phase == starting):
		// A process that was found counts as running; a started one must first survive
		// for a moment.
		v.settled = now
		if v.phase == starting {
			v.settled = now.Add(v.s.cfg.Settle)
		}
		v.phase, v.started, v.cleared = settling, true, false
		return now
	case alive && v.phase == settling:
		if now.Before(v.settled) {
			return v.settled
		}
		v.phase, v.message = running, ""
		v.resetRules()
		v.report(false, "process %d is running", v.proc.PID)
		return now
	case alive:
		if before.PID != 0 && before != v.proc {
			v.report(false, "process is now %d, before %d", v.proc.PID, before.PID)
		}
		return v.judge(now)
	case v.phase == starting:
		return v.awaitStart(now)
	}
	return v.tryStart(now)
}

// died is called when the process of a running service has ended.
func (v *service) died(now time.Time, was process.Identity) {
	v.phase, v.message, v.ruleMsg = idle, "Does not exist", ""
	v.report(true, "process %d does not exist any more", was.PID)
	for _, r := range v.check.Rules {
		if r.Kind == monitfile.RuleMissing && r.Action != monitfile.ActionRestart && r.Action != monitfile.ActionStart {
			v.act(now, r)
			if r.Action == monitfile.ActionAlert || r.Action == monitfile.ActionExec {
				v.retry = now.Add(100 * 365 * 24 * time.Hour) // this supervisor does not start it again
			}
			return
		}
	}
	v.countRestart(now)
	v.backOff(now)
}

const maxBackOff = 30 * time.Second

// backOff sets the time of the next start: at once if the process was running for long;
// otherwise with growing pauses.
func (v *service) backOff(now time.Time) {
	v.retry = now
	if v.fails > 0 {
		d := v.s.cfg.BackOff << min(v.fails-1, 10)
		v.retry = now.Add(min(d, max(maxBackOff, v.s.cfg.BackOff)))
	}
	v.fails++
}

// countRestart records a restart and evaluates the rules about restarts.
func (v *service) countRestart(now time.Time) {
	v.restarts++
	v.history = append(v.history, now)
	if n := len(v.history); n > 1000 {
		v.history = slices.Delete(v.history, 0, n-1000)
	}
	for _, r := range v.check.Rules {
		if r.Kind != monitfile.RuleRestarts {
			continue
		}
		first := now.Add(-time.Duration(r.Cycles) * v.s.cfg.RuleCycle)
		n := 0
		for _, at := range v.history {
			if at.After(first) {
				n++
			}
		}
		if n >= r.Matches {
			v.history = nil
			v.report(true, "%d restarts within %d cycles: %s", n, r.Cycles, r.Action)
			v.act(now, r)
		}
	}
}

// awaitStart waits for the process of the start program.
func (v *service) awaitStart(now time.Time) time.Time {
	switch {
	case v.run != nil && v.run.ended && v.run.err != nil:
		v.failStart(now, v.run.err.Error())
	case !now.Before(v.deadline):
		why := fmt.Sprintf("%s names no running process after %v", v.check.PidFile, v.check.Start.Timeout)
		if v.run.running() {
			why += " and the start program has not ended"
		}
		v.failStart(now, why)
	default:
		return v.nextCheck(now)
	}
	return now
}

func (v *service) failStart(now time.Time, why string) {
	v.phase, v.message, v.cleared = idle, "Execution failed: "+why, false
	v.report(true, "cannot start: %s", why)
	v.countRestart(now)
	v.fails = max(v.fails, 1)
	v.backOff(now)
}

// tryStart runs the start program if nothing prevents it.
func (v *service) tryStart(now time.Time) time.Time {
	later := now.Add(v.s.cfg.Cycle)
	switch {
	case v.want != wantRunning:
		return later
	case len(v.check.Start.Argv) == 0:
		v.message = "Does not exist"
		return later
	case v.started && v.check.Mode == monitfile.ModePassive:
		return later
	case now.Before(v.retry):
		return v.retry
	}
	if v.run.running() {
		// A start program that hangs is ended after twice its timeout, because two must
		// not run at the same time.
		if end := v.run.began.Add(2 * v.check.Start.Timeout); now.Before(end) {
			return end
		}
		v.run.end(now)
		return now.Add(firstPoll)
	}
	if !v.clearDependents() {
		return later
	}
	for _, r := range v.requires {
		if r.want == wantRunning && r.phase != running {
			if r.message != "" {
				v.message = fmt.Sprintf("Depends on %s: %s", r.check.Name, r.message)
			}
			return later
		}
	}
	run, err := v.s.launch(v.check.Start.Argv)
	v.started = true
	if err != nil {
		v.failStart(now, err.Error())
		return now
	}
	v.run, v.phase, v.poll = run, starting, firstPoll
	v.deadline = now.Add(v.check.Start.Timeout)
	v.report(false, "starting")
	return now.Add(v.poll)
}

// clearDependents stops the services that depend on this one before it is restarted; they
// start again after it. It returns false while some are still stopping.
func (v *service) clearDependents() bool {
	clean := true
	for _, d := range v.dependents {
		if d.want != wantRunning {
			continue
		}
		if !v.cleared && d.proc.PID != 0 && d.phase != stopping {
			d.restart()
		}
		if d.again || d.phase == stopping {
			clean = false
		}
	}
	v.cleared = true
	return clean
}

// restart makes keep stop and start the process, after the services that depend on it
// have stopped.
func (v *service) restart() {
	v.again, v.cleared, v.retry = true, false, time.Time{}
}

// halt runs the stop program; without one, it sends TERM to the process.
func (v *service) halt(now time.Time) {
	prog := v.check.Stop
	v.phase, v.poll = stopping, firstPoll
	v.deadline = now.Add(max(prog.Timeout, firstPoll))
	if len(prog.Argv) == 0 {
		v.run = nil
		v.deadline = now.Add(monitfile.DefaultTimeout)
		if v.proc.PID > 1 {
			v.proc.Terminate()
		}
		return
	}
	run, err := v.s.launch(prog.Argv)
	if err != nil {
		v.run = &program{ended: true, err: err}
		v.deadline = now
		return
	}
	v.run = run
	v.report(false, "stopping process %d", v.proc.PID)
}

// finishStop is called in place of keep while the process stops for a restart.
func (v *service) finishStop(now time.Time, alive bool) time.Time {
	switch {
	case !alive && !v.run.running():
		v.phase, v.retry = idle, now
		return now
	case !alive && !now.Before(v.deadline):
		v.run.end(now)
		return now.Add(firstPoll)
	case alive && !now.Before(v.deadline):
		v.message = v.stopFailure()
		v.report(true, "cannot restart: %s", v.message)
		v.phase = running
		v.resetRules()
		return now
	}
	return v.nextCheck(now)
}

func (v *service) stopFailure() string {
	why := fmt.Sprintf("Execution failed: process %d still runs %v after its stop program was started", v.proc.PID, max(v.check.Stop.Timeout, firstPoll))
	switch {
	case len(v.check.Stop.Argv) == 0:
		why = fmt.Sprintf("Execution failed: process %d still runs %v after it was asked to end", v.proc.PID, monitfile.DefaultTimeout)
	case v.run != nil && v.run.ended && v.run.err != nil:
		why += ": " + v.run.err.Error()
	case v.run.running():
		why += ", which has not ended"
	}
	return why
}

// bringDown makes sure that no process of the service is left.
func (v *service) bringDown(now time.Time, alive bool) time.Time {
	if v.down {
		return now.Add(v.s.cfg.Cycle)
	}
	for _, d := range v.dependents {
		if d.want == wantStopped && !d.down && !d.gaveUp {
			return now.Add(v.s.cfg.Cycle)
		}
	}
	switch {
	case alive && v.phase != stopping:
		v.halt(now)
		return now.Add(v.poll)
	case alive && !now.Before(v.deadline):
		if !v.gaveUp {
			v.gaveUp, v.message = true, v.stopFailure()
			v.report(true, "cannot stop: %s", v.message)
		}
		return now.Add(v.s.cfg.Cycle)
	case alive:
		return v.nextCheck(now)
	case v.run.running():
		// The start program has not started a process yet, or the stop program is still
		// cleaning up within its timeout.
		if v.phase != stopping || !now.Before(v.deadline) {
			v.run.end(now)
		}
		return now.Add(firstPoll)
	}
	v.phase, v.again, v.down, v.gaveUp, v.message, v.ruleMsg = idle, false, true, false, "", ""
	v.report(false, "stopped")
	return now
}

// status returns the Status without measurements. It checks the process, which may have
// changed since the loop's last check.
func (v *service) status() Status {
	st := Status{Name: v.check.Name, Monitored: v.want == wantRunning || v.want == wantStopped && !v.down,
		Message: v.message, Restarts: v.restarts}
	if st.Message == "" {
		st.Message = v.ruleMsg
	}
	if id, ok := v.find(); ok {
		since := v.since
		if id != v.proc {
			since = runsSince(id)
		}
		st.PID, st.Uptime = id.PID, max(0, time.Since(since))
	}
	switch {
	case !st.Monitored:
		st.State, st.Message = StateUnknown, ""
	case st.Message != "":
		st.State = StateFailing
	case v.want == wantRunning && v.phase == running && st.PID == 0:
		st.State, st.Message = StateFailing, "Does not exist"
	case v.phase == running || v.want == wantStopped:
		st.State = StateRunning
	default:
		st.State = StateStarting
	}
	return st
}
