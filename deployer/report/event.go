// Package report reports the progress of a run: numbered, nested stages, and messages for
// people, as typed events.
package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/failure"
)

// Kind is the kind of an Event.
type Kind string

// The kinds of events. A group is a stage that contains stages.
const (
	Begin    Kind = "begin"    // a stage or group begins: Stage, Parent, Name, Group
	End      Kind = "end"      // a stage or group ends: Status, Seconds, and Reason or Error
	Progress Kind = "progress" // during a stage: Done of Total, in bytes
	Waiting  Kind = "waiting"  // during a stage: Seconds, and the cause in Message
	Info     Kind = "info"     // Message, for the person
	Warning  Kind = "warning"  // Message, for the person to act on
	Log      Kind = "log"      // Message, lines of the log Name
	Planned  Kind = "plan"     // Plan
	Step     Kind = "step"     // a step of the plan begins: Name, Down
	Ended    Kind = "ended"    // the last event of a run: Outcome, Timeline
)

// Status says how a stage ended.
type Status string

// The statuses of a stage that has ended.
const (
	Finished Status = "finished"
	Skipped  Status = "skipped"
	Failed   Status = "failed"
	Stopped  Status = "interrupted" // by a signal, or by an unanswered question
)

// Event is one message of a run; as JSON it is one line of the machine-readable output.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   Kind      `json:"kind"`
	Stage  int       `json:"stage,omitempty"`  // number of the stage in this run, from 1
	Parent int       `json:"parent,omitempty"` // number of the stage that contains it; 0: none
	Group  bool      `json:"group,omitempty"`
	Name   string    `json:"name,omitempty"`
	// Instance is the one that the lines of a log are of, if several are shown: web/0.
	Instance string     `json:"instance,omitempty"`
	Status   Status     `json:"status,omitempty"`
	Reason   string     `json:"reason,omitempty"` // why it was skipped
	Error    string     `json:"error,omitempty"`
	Seconds  float64    `json:"seconds,omitempty"`
	Done     int64      `json:"done,omitempty"`
	Total    int64      `json:"total,omitempty"` // 0: unknown
	Message  string     `json:"message,omitempty"`
	More     int        `json:"-"` // bytes of the line of a log that are not in Message
	Plan     *plan.View `json:"plan,omitempty"`
	Down     bool       `json:"down,omitempty"` // the service is down during the step
	Outcome  *Outcome   `json:"outcome,omitempty"`
	// Timeline is set if the run has ended.
	Timeline *timeline.Timeline `json:"-"`
}

// Outcome is the result of a run, however it ended.
type Outcome struct {
	Changed   bool     `json:"changed"`                    // true: a step of the plan began
	VM        string   `json:"vm,omitempty"`               // CID of the VM
	Addresses []string `json:"addresses,omitempty"`        // addresses of the instance
	Seconds   float64  `json:"seconds"`                    // how long the run took
	Downtime  *float64 `json:"downtime_seconds,omitempty"` // how long the service was down in this run; absent: nothing changed
	// Down: the service is down at the end, or was stopped on purpose.
	Down bool `json:"down,omitempty"`
	// Detached: bootstrap stop --hard has deleted the VM, and bootstrap start creates it again.
	Detached bool `json:"-"`
	// Instances is the result of a run about several instances; nil: it was about one.
	Instances *Instances `json:"instances,omitempty"`
}

// Instances is the result of a run about several instances.
type Instances struct {
	Created   int  `json:"created"`
	Changed   int  `json:"changed"`
	Deleted   int  `json:"deleted"`
	Unchanged int  `json:"unchanged"` // also those that were left out
	At        []At `json:"at,omitempty"`
}

// At is the address of an instance.
type At struct {
	Instance string `json:"instance"` // GROUP/INDEX
	Address  string `json:"address"`
}

// Holder is the deployment that has an address which was refused to another deployment.
type Holder struct {
	Address    string `json:"address"` // an address or a block
	Network    string `json:"network"` // network of the holder
	Deployment string `json:"deployment"`
	Name       string `json:"name,omitempty"` // name of the deployment, for people
	Instance   string `json:"instance"`
}

// reporter numbers stages, and passes events to a function, one at a time.
type reporter struct {
	mu     sync.Mutex
	stages int
	report func(Event)
}

func (p *reporter) emit(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Time = time.Now()
	e.Seconds = timeline.Rounded(e.Seconds)
	if o := e.Outcome; o != nil {
		o.Seconds = timeline.Rounded(o.Seconds)
		if o.Downtime != nil {
			*o.Downtime = timeline.Rounded(*o.Downtime)
		}
	}
	p.report(e)
}

// Stage is a running stage, or the run itself.
type Stage struct {
	rep     *reporter
	number  int // 0: the run
	parent  int
	group   bool
	name    string
	started time.Time
}

// New returns the stage of a run. It passes events to the function, one at a time.
func New(to func(Event)) *Stage { return &Stage{rep: &reporter{report: to}} }

// Emit reports an event.
func (s *Stage) Emit(e Event) { s.rep.emit(e) }

// Begin begins a stage inside s; the caller must call End.
func (s *Stage) Begin(name string, group bool) *Stage {
	s.rep.mu.Lock()
	s.rep.stages++
	child := &Stage{rep: s.rep, number: s.rep.stages, parent: s.number, group: group, name: name, started: time.Now()}
	s.rep.mu.Unlock()
	s.rep.emit(Event{Kind: Begin, Stage: child.number, Parent: child.parent, Group: group, Name: name})
	return child
}

// End reports how the stage ended and returns err, or nil if err is a Skip.
func (s *Stage) End(err error) error {
	e := Event{Kind: End, Stage: s.number, Parent: s.parent, Group: s.group, Name: s.name, Status: Finished, Seconds: time.Since(s.started).Seconds()}
	var why Skip
	var interrupted *InterruptedError
	switch {
	case errors.As(err, &why):
		e.Status, e.Reason, err = Skipped, string(why), nil
	case errors.Is(err, context.Canceled), errors.As(err, &interrupted):
		e.Status = Stopped
	case err != nil:
		e.Status, e.Error = Failed, err.Error()
	}
	s.rep.emit(e)
	return err
}

// Do runs fn as a stage inside s.
func (s *Stage) Do(name string, fn func(*Stage) error) error {
	child := s.Begin(name, false)
	return child.End(fn(child))
}

// Progress reports the progress of the stage. It has the form of functions that count
// bytes.
func (s *Stage) Progress(done, total int64) {
	s.rep.emit(Event{Kind: Progress, Stage: s.number, Parent: s.parent, Name: s.name, Done: done, Total: total})
}

// Info reports a message for people.
func (s *Stage) Info(message string) { s.rep.emit(Event{Kind: Info, Message: message}) }

// Warning reports a message about which people should do something.
func (s *Stage) Warning(message string) { s.rep.emit(Event{Kind: Warning, Message: message}) }

// Log reports lines of a log. They must be complete, because only a complete private key
// is recognized.
func (s *Stage) Log(name string, lines []string) {
	s.rep.emit(Event{Kind: Log, Name: name, Message: strings.Join(lines, "\n")})
}

// Skip is the error of a stage that had nothing to do; its text is the reason.
type Skip string

func (s Skip) Error() string { return string(s) }

// Unskipped returns err, or nil if err is a Skip.
func Unskipped(err error) error {
	var why Skip
	if errors.As(err, &why) {
		return nil
	}
	return err
}

// InterruptedError says that the run was stopped by a signal, between two steps or while
// it waited.
type InterruptedError struct {
	Row  string // name of the step
	Left string // the agent's message that is still carried out; empty: none
	Look bool   // the run changes nothing
}

func (e *InterruptedError) Error() string {
	if e.Look {
		return "interrupted; nothing was changed"
	}
	text := fmt.Sprintf("interrupted at %q; nothing is lost: run the same command again to continue", e.Row)
	if e.Left != "" {
		text += fmt.Sprintf("; the VM's agent is still running %s, which it cannot cancel: the next run waits until %[1]s has ended, unless you add --fix", e.Left)
	}
	return text
}

func (e *InterruptedError) Name() string { return "interrupted" }

func (e *InterruptedError) ExitCode() failure.Code { return failure.Interrupted }

// Minute formats a time for people, to the minute.
func Minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
