package deployer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
)

// A process is in a crash loop if it has ended mostEnds times while a run waits for it,
// or if monit reports it as failing for failingTime without interruption.
const (
	mostEnds    = 5
	failingTime = 30 * time.Second
)

// The answers of an agent show the life of a process only so exactly.
const (
	monitPass = 10 * time.Second // a stemcell's monit looks at its processes that often
	// Uptimes are full seconds, those of a stemcell as old as the last pass of monit, which
	// waits for start programs.
	liveSlack, passSlack = 1200 * time.Millisecond, 30 * time.Second
)

// crashes finds processes in a crash loop in the answers of an agent.
type crashes struct {
	began time.Time
	live  bool   // the answers show the present moment, like those of the embedded agent
	spec  string // configuration hash of the jobs, in the last answer
	seen  map[string]*crash
}

// crash has the history of a process, according to the answers.
type crash struct {
	state   string // in the last answer
	uptime  int    // in seconds, in the last answer in which it was running
	at      time.Time
	born    time.Time // when its process began that is running or was running last; zero: none was
	gone    time.Time // since when that process is neither running nor failing; zero: it is
	ends    int
	failed  bool          // a crash or a failed start was seen
	longest time.Duration // that a process has lived at most that has ended
	least   time.Duration // that it must run in any case, if it has failed
	failing time.Time     // when it began to fail; zero: it is not failing
}

// Crashing says that a process ends again and again, or does not start.
type Crashing struct {
	Process string
	Ends    int           // how often it has ended, as far as the answers show that
	For     time.Duration // time since it began to fail, or since the wait began
}

// String returns a sentence without a full stop.
func (c Crashing) String() string {
	if c.Ends >= mostEnds {
		return fmt.Sprintf("process %s ended %d times within %s", c.Process, c.Ends, c.For.Round(time.Second))
	}
	return fmt.Sprintf("process %s keeps failing for %s", c.Process, c.For.Round(time.Second))
}

// watchCrashes returns a history without answers. live is true for an embedded agent.
func watchCrashes(now time.Time, live bool) *crashes {
	return &crashes{began: now, live: live, seen: map[string]*crash{}}
}

// take adds an answer of the agent. It returns a process that is in a crash loop; nil:
// there is none.
func (c *crashes) take(now agent.State, at time.Time) *Crashing {
	var worst *Crashing
	c.spec = now.ConfigurationHash
	for _, p := range now.Processes {
		was := c.seen[p.Name]
		if was == nil {
			was = &crash{at: c.began}
			c.seen[p.Name] = was
		}
		if p.State == "running" {
			c.runs(was, p.Uptime.Secs, at)
		} else {
			c.rests(was, p.State, at)
		}
		switch {
		case p.State != "failing":
			was.failing = time.Time{}
		case was.failing.IsZero():
			was.failing = at
		}
		was.state, was.at = p.State, at
		switch {
		case worst != nil:
		case was.ends >= mostEnds:
			worst = &Crashing{Process: p.Name, Ends: was.ends, For: at.Sub(c.began)}
		case !was.failing.IsZero() && at.Sub(was.failing) >= failingTime:
			worst = &Crashing{Process: p.Name, Ends: was.ends, For: at.Sub(was.failing)}
		}
	}
	return worst
}

// slack returns by how much two answers about the same process may differ in when it began.
func (c *crashes) slack() time.Duration {
	if c.live {
		return liveSlack
	}
	return passSlack
}

// ran adds, before the first answer is added, what another process has seen.
func (c *crashes) ran(now agent.State, ran Ran, at time.Time) {
	for _, p := range now.Processes {
		born := at.Add(-time.Duration(p.Uptime.Secs) * time.Second)
		if p.State == "running" && born.Sub(ran.At) <= c.slack() {
			continue
		}
		was := &crash{state: "running", at: ran.At, born: ran.Begun}
		if p.State == "running" {
			was.end(born)
		}
		c.seen[p.Name] = was
	}
}

// runs adds that the process is running, for so many seconds. If it was running before, and
// began later than that one, that one has ended in between.
func (c *crashes) runs(was *crash, uptime int, at time.Time) {
	born := at.Add(-time.Duration(uptime) * time.Second)
	if !was.born.IsZero() && (uptime < was.uptime || born.Sub(was.born) > c.slack()) {
		end := born
		if !was.gone.IsZero() {
			end = was.gone
		}
		was.end(end)
	}
	if was.born.IsZero() || born.Before(was.born) { // The first answers may have an old uptime.
		was.born = born
	}
	was.uptime, was.gone = uptime, time.Time{}
}

// rests adds that the process has another state.
func (c *crashes) rests(was *crash, state string, at time.Time) {
	switch {
	case state != "failing":
		// A monit that was started again reports a running process as starting, too.
		if !was.born.IsZero() && was.gone.IsZero() {
			was.gone = at
		}
	case !was.gone.IsZero():
		was.end(was.gone)
	case !was.born.IsZero():
		was.end(at)
	case was.state != "failing" && c.live:
		// It has failed before an answer showed it running. A stemcell's monit calls every process
		// failing while it waits for the start program.
		was.failed, was.longest = true, max(was.longest, at.Sub(was.at))
	}
}

// end adds that the process has ended.
func (was *crash) end(at time.Time) {
	was.ends++
	was.failed, was.longest = true, max(was.longest, at.Sub(was.born))
	was.born, was.gone = time.Time{}, time.Time{}
}

// needs returns how long a process that has crashed must run until it counts as running.
func (c *crashes) needs(was *crash) time.Duration {
	margin := monitPass
	if c.live {
		margin = time.Second
	}
	return max(was.least, (was.longest + was.longest/4 + margin).Round(time.Second))
}

// Unproven says that a process runs which has crashed before, for a shorter time than it may
// have lived then.
type Unproven struct {
	Process string
	Ends    int           // how often it has ended; 0: it has failed to start
	For     time.Duration // how long it has been running
	Needs   time.Duration // how long it must run
}

// String returns a sentence without a full stop.
func (u Unproven) String() string {
	return fmt.Sprintf("process %s %s and has run for only %s since; it counts as running after %s", u.Process, times(u.Ends), u.For.Round(time.Second), u.Needs)
}

// times returns in words how often a process has ended.
func times(ends int) string {
	switch ends {
	case 0:
		return "has failed"
	case 1:
		return "has ended once"
	}
	return fmt.Sprintf("has ended %d times", ends)
}

// unproven returns a running process that has crashed and has not yet run for longer than
// ever before; nil: there is none.
func (c *crashes) unproven(now agent.State, at time.Time) *Unproven {
	for _, p := range now.Processes {
		was := c.seen[p.Name]
		if was == nil || !was.failed || was.born.IsZero() {
			continue
		}
		if u := (Unproven{Process: p.Name, Ends: was.ends, For: at.Sub(was.born), Needs: c.needs(was)}); u.For < u.Needs {
			return &u
		}
	}
	return nil
}

// runOn adds an answer. It reports whether all jobs run, and no process has crashed or each
// that has runs for long enough since. processes are the expected ones.
func (c *crashes) runOn(now agent.State, processes []string, at time.Time) bool {
	c.take(now, at)
	return plan.Runs(now, processes) && c.unproven(now, at) == nil
}

// words describes the processes that do not run, and how often each has ended; empty: all
// run.
func (c *crashes) words(now agent.State) string {
	var list []string
	for _, p := range now.Processes {
		was := c.seen[p.Name]
		switch {
		case was != nil && was.ends > 0:
			list = append(list, fmt.Sprintf("process %s is %s; it %s", p.Name, p.State, times(was.ends)))
		case p.State != "running":
			list = append(list, fmt.Sprintf("process %s is %s", p.Name, p.State))
		}
	}
	return strings.Join(list, ", ")
}

// names returns the processes whose logs show why the jobs do not run.
func (c *crashes) names(now agent.State) []string {
	var list []string
	for _, p := range now.Processes {
		if was := c.seen[p.Name]; p.State != "running" || was != nil && was.ends > 0 {
			list = append(list, p.Name)
		}
	}
	return list
}

// withoutRepeats replaces equal lines in a row by one line, with their number.
func withoutRepeats(lines []string) []string {
	var list []string
	for len(lines) > 0 {
		n := slices.IndexFunc(lines, func(l string) bool { return l != lines[0] })
		if n < 0 {
			n = len(lines)
		}
		line := lines[0]
		if n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		list, lines = append(list, line), lines[n:]
	}
	return list
}
