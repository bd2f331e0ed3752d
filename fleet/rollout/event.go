package rollout

import (
	"fmt"
	"strings"
	"time"

	"bootstrap/fleet/schedule"
)

// Event is one message of a run, for the person and as JSON.
type Event struct {
	Time    time.Time        `json:"time"`
	Kind    Kind             `json:"kind"`
	Run     string           `json:"run,omitempty"`
	Member  string           `json:"member,omitempty"`
	Verdict schedule.Verdict `json:"-"`
	Status  string           `json:"status,omitempty"` // status of a member: started, step, or its verdict
	Step    string           `json:"step,omitempty"`
	Canary  bool             `json:"canary,omitempty"`
	Wave    int              `json:"wave,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Hint    string           `json:"hint,omitempty"`
	Seconds float64          `json:"seconds,omitempty"`
	Down    float64          `json:"down_seconds,omitempty"`
	Log     string           `json:"log,omitempty"`
	Message string           `json:"message,omitempty"`
	// Instance and Stream are those of a line of output: web/0, and stdout or stderr.
	Instance string         `json:"instance,omitempty"`
	Stream   string         `json:"stream,omitempty"`
	Counts   map[string]int `json:"counts,omitempty"`
	// Record is the whole run.
	Record *Record `json:"-"`
}

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	Begun    Kind = "fleet"        // the run begins: Run, Counts
	Planning Kind = "fleet_plan"   // a member was planned: Member, Status
	OfMember Kind = "member"       // a member started, began a step, or ended
	Output   Kind = "fleet_output" // a line of an errand's output: Member, Instance, Stream, Message
	Phase    Kind = "fleet_phase"  // Message names the part of the run that begins
	Notice   Kind = "fleet_notice" // Message
	Over     Kind = "fleet_end"    // the run has ended: Status, Reason, Counts
)

// say reports the part of the run that begins.
func (c *coordinator) say(s schedule.Step) {
	if len(s.Start) == 0 && s.Until.IsZero() {
		return
	}
	phase := string(s.Phase)
	if s.Phase == schedule.Waves {
		phase = ""
		if len(c.rules.Waves) > 0 {
			phase = fmt.Sprintf("wave %d", s.Wave)
		}
	}
	if s.Phase == pruned && len(s.Start) == 0 {
		return
	}
	key, text := phase, phase
	if len(s.Start) == 0 {
		key = fmt.Sprint(phase, s.Until)
		text = strings.TrimPrefix(fmt.Sprintf("%s: nothing is started for %s", phase, time.Until(s.Until).Round(time.Second)), ": ")
	}
	if text != "" && key != c.phase {
		c.emit(Event{Kind: Phase, Message: text, Wave: s.Wave})
	}
	c.phase = key
}

func (c *coordinator) emit(e Event) {
	e.Time, e.Record = time.Now(), c.record
	c.opts.Report(e)
}

func (c *coordinator) counts() map[string]int {
	counts := map[string]int{}
	for verdict, n := range c.record.Count() {
		counts[verdict.String()] = n
	}
	return counts
}
