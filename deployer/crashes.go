package deployer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
)

// A process is in a crash loop if it has ended mostEnds times while a run waits for it,
// or if monit reports it as failing for failingTime without interruption.
const (
	mostEnds    = 5
	failingTime = 30 * time.Second
)

// crashes finds processes in a crash loop in the answers of an agent.
type crashes struct {
	began time.Time
	seen  map[string]*crash
}

// crash has the history of a process, according to the answers.
type crash struct {
	state   string // in the last answer
	uptime  int    // in seconds, in the last answer
	ends    int
	failing time.Time // when it began to fail; zero: it is not failing
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

func watchCrashes(now time.Time) *crashes { return &crashes{began: now, seen: map[string]*crash{}} }

// take adds an answer of the agent. It returns a process that is in a crash loop; nil:
// there is none.
func (c *crashes) take(now agent.State, at time.Time) *Crashing {
	var worst *Crashing
	for _, p := range now.Processes {
		was := c.seen[p.Name]
		if was == nil {
			was = &crash{state: p.State, uptime: p.Uptime.Secs}
			c.seen[p.Name] = was
		}
		again := p.State == "running" && p.Uptime.Secs < was.uptime // it was started again in between
		if was.state == "running" && (p.State == "failing" || p.State == "starting" || again) {
			was.ends++
		}
		switch {
		case p.State != "failing":
			was.failing = time.Time{}
		case was.failing.IsZero():
			was.failing = at
		}
		was.state, was.uptime = p.State, p.Uptime.Secs
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

// words describes the processes that do not run, and how often each has ended; empty: all
// run.
func (c *crashes) words(now agent.State) string {
	var list []string
	for _, p := range now.Processes {
		was := c.seen[p.Name]
		switch {
		case was != nil && was.ends == 1:
			list = append(list, fmt.Sprintf("process %s is %s; it has ended once", p.Name, p.State))
		case was != nil && was.ends > 1:
			list = append(list, fmt.Sprintf("process %s is %s; it has ended %d times", p.Name, p.State, was.ends))
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
