// Package schedule decides which members of a fleet start next. It is pure: the decision
// depends only on the rules, the verdicts so far and the time.
//
// Members are started in the order of their list: canaries first, then the others in
// waves. Members whose state another run had locked are tried again after the others.
// After a failure that the rules do not allow, no member is started any more.
package schedule

import (
	"fmt"
	"slices"
	"time"
)

// Verdict is the result of a member, or its state during the run.
type Verdict uint8

// The verdicts. When a run has ended, no member is Waiting or Running.
const (
	Waiting     Verdict = iota // it will be started
	Running                    // it was started and is still running
	Done                       // it was updated to match its manifest
	Unchanged                  // nothing had changed
	Blocked                    // it must not be changed, and was skipped
	Busy                       // another run has locked its state
	Failed                     // it ended with an error
	NotStarted                 // the run ended before it was its turn
	Interrupted                // it ended early because somebody asked it to
)

var words = [...]string{"waiting", "running", "done", "unchanged", "blocked", "busy", "failed", "not started", "interrupted"}

// Verdicts returns all verdicts, in the order in which they are counted for people.
func Verdicts() []Verdict {
	return []Verdict{Waiting, Running, Done, Unchanged, Blocked, Busy, Failed, NotStarted, Interrupted}
}

func (v Verdict) String() string { return words[v] }

// MarshalText returns the word of the verdict.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the word of a verdict.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, word := range words {
		if word == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no verdict", text)
}

// Rules are the limits of a run. Shares of the fleet are numbers of members here.
type Rules struct {
	Canaries     int   `json:"canaries"`      // members that must end well before the others start
	Width        int   `json:"max_in_flight"` // members that run at the same time; at least 1
	Waves        []int `json:"waves,omitempty"`
	BakeCanaries time.Duration
	BakeWaves    time.Duration
	MaxFailures  int           `json:"max_failures"` // counts members that are not canaries
	BusyRounds   int           // how often busy members are tried again
	BusyWait     time.Duration // before each of these rounds
}

// Member has what the schedule needs to know of a member.
type Member struct {
	Verdict   Verdict
	Candidate bool      // it may be a canary
	Canary    bool      // it was started as a canary
	Wave      int       // the wave in which it was started, from 1; 0: none
	Tries     int       // how often it was found busy
	Ended     time.Time // when it got its verdict
}

// Asked is a person's request to a run.
type Asked struct {
	Pause bool // start no member until the run is resumed
	Stop  bool // start no more members
}

// Start is a member to be started.
type Start struct {
	Member int // index of the member
	Canary bool
	Wave   int
}

// Phase is a part of a run.
type Phase string

// The phases, in the order in which a run goes through them.
const (
	Canaries Phase = "canaries"
	Waves    Phase = "waves"
	Again    Phase = "busy members again"
	Ending   Phase = "ending" // no more members are started
)

// Step is the next step of a run.
type Step struct {
	Phase Phase
	Wave  int // the wave of the phase Waves, from 1
	Start []Start
	// Until is when to call Next again if nothing happens before; zero: only when a
	// member ends or Asked changes.
	Until time.Time
	Ended bool // the run has ended: no member runs or will be started
}

// Next returns the next step. The caller marks the members that it starts, and calls Next
// again when one of them ends, at the time Until, and when Asked changes.
func Next(rules Rules, members []Member, asked Asked, now time.Time) Step {
	c := count(members)
	if asked.Stop || c.interrupted || c.canaryFailed || c.failed > rules.MaxFailures {
		return Step{Phase: Ending, Ended: c.running == 0}
	}
	width := max(rules.Width, 1)
	p := picker{members: members, room: width - c.running, rules: rules, now: now}
	if asked.Pause {
		p.room = 0
	}
	need := min(rules.Canaries, c.candidates)
	if c.canaries < need {
		p.step.Phase = Canaries
		left := p.canaries(need-c.canaries-c.canariesRunning, c)
		p.step.Ended = c.running == 0 && !left
		return p.step
	}
	if need > 0 && c.waves == 0 && c.waiting+c.busy > 0 && p.bakes(c.canaryEnded, rules.BakeCanaries) {
		p.step.Phase = Canaries
		return p.step
	}
	if c.waiting > 0 || c.waveRunning > 0 {
		p.step.Phase = Waves
		p.wave(c)
		return p.step
	}
	p.step.Phase = Again
	left := p.busy(p.room, func(*Member) bool { return true }, Start{})
	p.step.Ended = c.running == 0 && !left
	return p.step
}

// Order returns the members in the order in which they start if each of them succeeds at
// once.
func Order(rules Rules, members []Member) []Start {
	list := slices.Clone(members)
	for i := range list {
		list[i].Ended = time.Time{}
		if list[i].Verdict == Failed {
			list[i].Verdict = Blocked
		}
	}
	rules.BakeCanaries, rules.BakeWaves, rules.BusyWait = 0, 0, 0
	var order []Start
	for {
		step := Next(rules, list, Asked{}, time.Time{})
		if len(step.Start) == 0 {
			return order
		}
		for _, s := range step.Start {
			m := &list[s.Member]
			m.Verdict, m.Canary, m.Wave = Done, s.Canary, s.Wave
		}
		order = append(order, step.Start...)
	}
}

// counts summarizes the members for Next.
type counts struct {
	waiting, running, failed, busy int

	candidates        int // members that can be canaries
	waitingCandidates int
	canaries          int // candidates that succeeded
	canariesRunning   int
	canaryFailed      bool
	canaryEnded       time.Time

	waves       int // the number of the last wave
	waveSize    int // how many of its members are running or have run
	waveRunning int
	waveEnded   time.Time

	interrupted bool
}

func count(members []Member) counts {
	var c counts
	for i := range members {
		m := &members[i]
		if m.Candidate && m.Verdict != Unchanged && m.Verdict != Blocked {
			c.candidates++
		}
		if m.Wave > c.waves {
			c.waves, c.waveSize, c.waveRunning, c.waveEnded = m.Wave, 0, 0, time.Time{}
		}
		switch m.Verdict {
		case Waiting:
			c.waiting++
			if m.Candidate {
				c.waitingCandidates++
			}
			continue
		case Blocked, Unchanged, NotStarted:
		case Running:
			c.running++
			if m.Canary {
				c.canariesRunning++
			}
		case Busy:
			c.busy++
			continue
		case Failed:
			c.failed++
			c.canaryFailed = c.canaryFailed || m.Canary
		case Interrupted:
			c.interrupted = true
		case Done:
			if m.Canary {
				c.canaries++
			}
		}
		if m.Canary {
			c.canaryEnded = later(c.canaryEnded, m.Ended)
		}
		if m.Wave > 0 && m.Wave == c.waves {
			c.waveSize++
			c.waveEnded = later(c.waveEnded, m.Ended)
			if m.Verdict == Running {
				c.waveRunning++
			}
		}
	}
	return c
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// picker picks members to start, up to the limit.
type picker struct {
	members []Member
	rules   Rules
	now     time.Time
	room    int
	step    Step
}

// canaries starts waiting candidates, at most want. If none is waiting, it starts
// candidates that were busy. It reports whether any can still be tried.
func (p *picker) canaries(want int, c counts) (left bool) {
	if c.waitingCandidates > 0 {
		p.pick(min(want, p.room), Start{Canary: true}, func(m *Member) bool { return m.Verdict == Waiting && m.Candidate })
		return true
	}
	return p.busy(min(want, p.room), func(m *Member) bool { return m.Candidate }, Start{Canary: true})
}

// wave fills the current wave, or begins the next one when the current one has ended.
// Other members replace those that were busy.
func (p *picker) wave(c counts) {
	number, size := c.waves, c.waveSize
	p.step.Wave = number
	if limit := p.size(number); number == 0 || limit > 0 && size >= limit {
		if c.waveRunning > 0 {
			return
		}
		if number > 0 && p.bakes(c.waveEnded, p.rules.BakeWaves) {
			return
		}
		number, size = number+1, 0
		p.step.Wave = number
	}
	room := p.room
	if limit := p.size(number); limit > 0 {
		room = min(room, limit-size)
	}
	p.pick(room, Start{Wave: number}, func(m *Member) bool { return m.Verdict == Waiting })
}

// size returns how many members a wave has; 0: all remaining ones. The last size
// repeats.
func (p *picker) size(wave int) int {
	if len(p.rules.Waves) == 0 {
		return 0
	}
	return max(p.rules.Waves[min(max(wave, 1), len(p.rules.Waves))-1], 1)
}

// busy starts members that were busy, the least often tried first, after a pause since
// the last attempt. It reports whether any can still be tried.
func (p *picker) busy(room int, fits func(*Member) bool, as Start) (left bool) {
	tries, ended := 0, time.Time{}
	for i := range p.members {
		m := &p.members[i]
		if m.Verdict != Busy || m.Tries > p.rules.BusyRounds || !fits(m) {
			continue
		}
		if !left || m.Tries < tries {
			left, tries, ended = true, m.Tries, m.Ended
		} else if m.Tries == tries {
			ended = later(ended, m.Ended)
		}
	}
	if !left || room <= 0 || p.bakes(ended, p.rules.BusyWait) {
		return left
	}
	p.pick(room, as, func(m *Member) bool { return m.Verdict == Busy && m.Tries == tries && fits(m) })
	return left
}

// bakes reports whether a pause that began at a moment still lasts, and sets Until to
// its end.
func (p *picker) bakes(since time.Time, pause time.Duration) bool {
	until := since.Add(pause)
	if !p.now.Before(until) {
		return false
	}
	p.step.Until = until
	return true
}

// pick starts the first members that match, up to the limit.
func (p *picker) pick(room int, as Start, fits func(*Member) bool) {
	for i := range p.members {
		if room <= 0 {
			return
		}
		if fits(&p.members[i]) {
			as.Member = i
			p.step.Start = append(p.step.Start, as)
			room--
		}
	}
}
