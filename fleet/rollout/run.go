package rollout

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Options are the inputs of a run.
type Options struct {
	Fleet   *fleet.Fleet
	Action  fleet.Strategy
	Errand  string // name of the errand; empty: the run runs none
	Program Program
	// StatusFlags are flags of status for every member.
	StatusFlags []string
	Home        string // ~/.bosh
	By          state.Holder
	Choice
	// Confirm asks whether a planned run may begin; nil: it begins.
	Confirm func(context.Context, *Record) error
	Report  func(Event)
	// Urgent is closed to make running members stop after their current step; nil: never.
	Urgent <-chan struct{}
	// Hands returns the hands of a run, which call notify from several goroutines;
	// nil: members run on this machine.
	Hands func(notify func(Progress)) Hands
	Logs  string // folder for the logs of runs; empty: below Home
	// AllowEmpty accepts an empty list of members although some were deployed.
	AllowEmpty bool
}

// Choice selects the members that a run updates or deletes.
type Choice struct {
	Only           []fleet.Selector // members that match any of them; empty: all members
	IncludeBlocked bool
	// Removed selects only members that are not in the fleet file any more.
	Removed bool
	// Prune also deletes these, after the others were updated.
	Prune bool
	// CreatedBefore leaves out members whose VM was created later and whose last deploy
	// was not interrupted; zero: none is left out.
	CreatedBefore time.Time
}

// Hands start members and report what happens to them.
type Hands interface {
	// Start starts a member and returns at once.
	Start(ctx context.Context, t Task) error
	// Interrupt asks a member, or all if name is empty, to stop after the current step.
	// Asked a second time, a member ends at once.
	Interrupt(name string)
}

// coordinator coordinates one run.
type coordinator struct {
	opts      Options
	rules     schedule.Rules
	record    *Record
	list      []schedule.Member // members of the record, in the same order
	index     map[string]int
	byName    map[string]fleet.Member
	hands     Hands
	progress  chan Progress
	gone      chan struct{} // closed when no goroutine reads progress any more
	handOvers []handOver
	asked     schedule.Asked
	why       string // why the run ends early
	aborted   bool
	limits    map[string]time.Time // when a running member will be asked to end
	late      map[string]bool      // members that did not end in time
	down      map[string]time.Time // since when the service of a member is down
	phase     string
	first     bool // there is no record of an earlier run
	unsaved   bool // the record has changed since it was written
}

// Deploy updates the members of a fleet. The error is an *EndedError if the run
// did not end well.
func Deploy(ctx context.Context, opts Options) (*Record, error) {
	lock, err := file.LockFleet(lockPath(opts.Fleet.Path), opts.By)
	if err != nil {
		return nil, err
	}
	defer lock.Remove()
	_ = os.Remove(askedPath(opts.Fleet.Path)) // a request to an earlier run
	c, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	if opts.Confirm != nil && c.record.Numbers.ToDo+c.record.Numbers.ToDelete > 0 {
		if err := opts.Confirm(ctx, c.record); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(c.record.Logs, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the logs: %w", err)
	}
	prune(c.record.Logs)
	if err := c.record.save(); err != nil {
		return nil, err
	}
	defer close(c.gone)
	notify := func(p Progress) {
		select {
		case c.progress <- p:
		case <-c.gone:
		}
	}
	if opts.Hands != nil {
		c.hands = opts.Hands(notify)
	} else {
		c.hands = NewHere(opts.Program, c.rules.Width, notify)
	}
	return c.record, c.run(ctx)
}

func lockPath(fleetFile string) string { return Path(fleetFile) + ".lock" }

// askEvery is how often a run looks for requests of other processes.
const askEvery = 300 * time.Millisecond

// lateGrace is how long a member that exceeded its time may take to finish its step
// before it is asked to end at once.
const lateGrace = 5 * time.Minute

// run starts members until the run has ended.
func (c *coordinator) run(ctx context.Context) error {
	c.emit(Event{Kind: Begun, Run: c.record.ID, Record: c.record, Counts: c.counts()})
	if c.opts.Prune && c.first {
		c.emit(Event{Kind: Notice, Message: "There is no record of earlier runs, which would name members that are no longer in the fleet file: no member is deleted"})
	}
	looks := time.NewTicker(askEvery)
	defer looks.Stop()
	stopped, urgent := ctx.Done(), c.opts.Urgent
	if err := c.obey(); err != nil { // requests while the members were planned
		return err
	}
	for {
		step := c.next(func(r schedule.Rules, list []schedule.Member) schedule.Step {
			return schedule.Next(r, list, c.asked, time.Now())
		})
		c.say(step)
		for _, start := range step.Start {
			if err := c.start(ctx, start); err != nil {
				return err
			}
			if c.list[start.Member].Verdict == schedule.Failed {
				break // the rules may forbid to start the others
			}
		}
		if step.Ended {
			return c.end()
		}
		var bake <-chan time.Time
		if !step.Until.IsZero() {
			bake = time.After(time.Until(step.Until))
		}
		select {
		case p := <-c.progress:
			if err := c.take(p); err != nil {
				return err
			}
		case <-stopped:
			c.stop("it was interrupted")
			stopped = nil
			c.emit(Event{Kind: Notice, Message: "Interrupted: no member is started any more, and the running ones end; a second Ctrl-C asks these to end at their next safe step"})
		case <-urgent:
			c.hands.Interrupt("")
			urgent = nil
			c.emit(Event{Kind: Notice, Message: "Interrupted: the running members end at their next safe step; a third Ctrl-C leaves them alone and ends this process"})
		case <-bake:
		case now := <-looks.C:
			c.remind(now)
			err := c.obey()
			if err == nil && c.unsaved { // the steps, which fleet status shows
				err = c.save()
			}
			if err != nil {
				return err
			}
		}
	}
}

func (c *coordinator) stop(why string) {
	c.asked.Stop = true
	if c.why == "" {
		c.why = why
	}
}

// obey carries out a request of another process: pause, resume or abort.
func (c *coordinator) obey() error {
	what, by, err := takeAsked(c.record.Fleet)
	if err != nil || what == "" {
		return err
	}
	notice := ""
	switch what {
	case Pause:
		c.asked.Pause, c.record.Paused = true, true
		notice = fmt.Sprintf("Paused by %s: no member is started until \"bootstrap fleet resume %s\"", by, c.record.Fleet)
	case Resume:
		c.asked.Pause, c.record.Paused = false, false
		notice = fmt.Sprintf("Resumed by %s", by)
	case Abort:
		c.aborted = true
		c.stop("it was aborted by " + by)
		c.hands.Interrupt("")
		notice = fmt.Sprintf("Aborted by %s: the running members end at their next safe step", by)
	}
	if err := c.save(); err != nil {
		return err
	}
	c.emit(Event{Kind: Notice, Message: notice})
	return nil
}

// remind asks members to end that exceed their time.
func (c *coordinator) remind(now time.Time) {
	for name, limit := range c.limits {
		if now.Before(limit) {
			continue
		}
		if !c.late[name] {
			c.emit(Event{Kind: Notice, Member: name, Message: fmt.Sprintf("%s has not ended within %s: it is asked to end at its next safe step", name, c.opts.Fleet.Update.Timeout)})
		}
		c.late[name] = true
		c.limits[name] = now.Add(lateGrace)
		c.hands.Interrupt(name)
	}
}

// start starts a member. A member that cannot be started has failed.
func (c *coordinator) start(ctx context.Context, s schedule.Start) error {
	m, now := c.record.Members[s.Member], time.Now().UTC()
	watch := c.opts.Fleet.Update.UpdateWatch
	if s.Canary {
		watch = c.opts.Fleet.Update.CanaryWatch
	}
	action := c.action(m)
	if action == fleet.DeleteStrategy || action.OfJobs() {
		watch = "" // these commands do not have the flag
	}
	task := Task{Member: c.byName[m.Name], Action: action, Errand: c.record.Errand, Watch: watch, Killed: m.killed, Logs: c.record.Logs, Run: c.record.ID}
	m.Verdict, m.Canary, m.Wave, m.Started, m.Ended = schedule.Running, s.Canary, s.Wave, &now, nil
	m.Reason, m.Hint, m.ExitCode, m.Step, m.Since, m.Process = "", "", 0, "", nil, 0
	m.Attempts++
	m.Log = filepath.Join(c.record.Logs, m.Name+".log")
	c.sync(s.Member)
	if err := c.save(); err != nil {
		return err
	}
	c.emit(Event{Kind: OfMember, Member: m.Name, Status: "started", Canary: m.Canary, Wave: m.Wave, Log: m.Log, Counts: c.counts()})
	if err := c.hands.Start(ctx, task); err != nil {
		return c.verdict(s.Member, Outcome{Verdict: schedule.Failed, ExitCode: failure.Failed, Error: err.Error()}, now)
	}
	return nil
}

// take records the progress of a member.
func (c *coordinator) take(p Progress) error {
	if p.Err != nil {
		return p.Err
	}
	if p.Notice != "" {
		c.emit(Event{Kind: Notice, Message: p.Notice})
		return nil
	}
	if p.Output != nil {
		c.emit(Event{Kind: Output, Member: p.Member, Instance: p.Output.Instance, Stream: p.Output.Stream, Message: p.Output.Text})
		return nil
	}
	i := c.index[p.Member]
	m := c.record.Members[i]
	at := p.At.UTC()
	switch {
	case p.Ended != nil:
		c.serviceIs(m, false, at)
		o := *p.Ended
		if o.Verdict == schedule.Failed && c.action(m) == fleet.DeleteStrategy {
			if left := c.planDelete(*m).Verdict; left == schedule.Unchanged || left == schedule.Done {
				o = Outcome{Verdict: schedule.Done} // an earlier start, for which it waited, has deleted it
			}
		}
		return c.verdict(i, o, at)
	case p.Step != "":
		m.Step, m.Since = p.Step, &at
		c.serviceIs(m, p.Down, at)
		c.unsaved = true
		c.emit(Event{Kind: OfMember, Member: m.Name, Status: "step", Step: p.Step})
	case p.Changes != nil:
		m.Changes = p.Changes
	case p.Process != 0:
		m.Process, m.Machine, m.Started = p.Process, p.Machine, &at // the member may have waited for a worker
		if limit := c.opts.Fleet.Update.Timeout; limit > 0 {
			c.limits[m.Name] = time.Now().Add(limit)
		}
	}
	return nil
}

// serviceIs adds up how long the service of a member is down.
func (c *coordinator) serviceIs(m *Member, down bool, at time.Time) {
	since, was := c.down[m.Name]
	switch {
	case down && !was:
		c.down[m.Name] = at
	case !down && was:
		delete(c.down, m.Name)
		if n := len(m.Outages); n > 0 && !since.After(m.Outages[n-1].From) {
			return // a worker reports everything again to a continued run
		}
		m.Down = inMilliseconds(m.Down + at.Sub(since).Seconds())
		m.Outages = append(m.Outages, Outage{From: since, To: at})
	}
}

// maxKills is how often a member is started at most if its process is killed: the member
// itself may exhaust the memory.
const maxKills = 2

// maxLost is how often a member is started at most if its machine is lost: the member
// itself may be the cause.
const maxLost = 5

// verdict records the result of a member.
func (c *coordinator) verdict(i int, o Outcome, at time.Time) error {
	m := c.record.Members[i]
	m.Ended, m.ExitCode, m.Reason, m.Hint, m.Process, m.Step, m.Since = &at, int(o.ExitCode), o.Error, o.Hint, 0, "", nil
	m.Verdict = o.Verdict
	switch {
	case c.late[m.Name] && (o.Verdict == schedule.Interrupted || o.Verdict == schedule.Failed):
		m.Verdict = schedule.Failed
		m.Reason = fmt.Sprintf("it did not end within %s: %s", c.opts.Fleet.Update.Timeout, o.Error)
	case o.Verdict == schedule.Waiting: // its process was never started
		m.Attempts--
		m.Started, m.Ended = nil, nil
	case o.Lost:
		m.lost++
		switch {
		case c.asked.Stop:
			m.Verdict = schedule.Interrupted
		case m.lost >= maxLost:
			m.Verdict, m.Reason = schedule.Failed, fmt.Sprintf("%s, for the %dth time", o.Error, m.lost)
		default:
			m.Verdict, m.killed = schedule.Waiting, true
			c.emit(Event{Kind: Notice, Member: m.Name, Message: fmt.Sprintf("%s is started again: %s", m.Name, o.Error)})
		}
	case o.Killed && m.Attempts-m.lost < maxKills && !c.asked.Stop:
		m.Verdict, m.killed = schedule.Waiting, true
		c.emit(Event{Kind: Notice, Member: m.Name, Message: fmt.Sprintf("The process of %s was killed (exit code %d): it is started again", m.Name, o.ExitCode)})
	case o.Verdict == schedule.Unchanged && m.Attempts > 1:
		m.Verdict = schedule.Done // an earlier start of this run has completed it
	case o.Verdict == schedule.Busy:
		m.Tries++
	}
	m.killed = m.killed && m.Verdict == schedule.Waiting
	delete(c.limits, m.Name)
	delete(c.late, m.Name)
	c.sync(i)
	// The record is written before the event, because readers of the event may read it.
	if err := c.save(); err != nil || m.Verdict == schedule.Waiting {
		return err
	}
	c.emit(Event{
		Kind: OfMember, Member: m.Name, Verdict: m.Verdict, Status: m.Verdict.String(), Reason: m.Reason, Hint: m.Hint,
		Seconds: inMilliseconds(at.Sub(*m.Started).Seconds()), Down: m.Down, Log: m.Log, Canary: m.Canary, Counts: c.counts(),
	})
	return nil
}

// sync copies a member's result from the record to the list of the schedule.
func (c *coordinator) sync(i int) {
	m := c.record.Members[i]
	c.list[i] = schedule.Member{Verdict: m.Verdict, Candidate: m.Candidate, Canary: m.Canary, Wave: m.Wave, Tries: m.Tries}
	if m.Ended != nil {
		c.list[i].Ended = *m.Ended
	}
}

func (c *coordinator) save() error {
	c.unsaved = false
	if err := c.record.save(); err != nil {
		return fmt.Errorf("%w; running members finish without this process; run the same command again to continue", err)
	}
	return nil
}

// inMilliseconds returns seconds to the millisecond.
func inMilliseconds(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }
