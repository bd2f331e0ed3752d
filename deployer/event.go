// Package deployer makes a VM what its manifest says and takes it down again:
// lists of rows, each of which looks before it acts, with a typed event for
// everything a person may want to know.
package deployer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Kind says what an Event tells.
type Kind string

// The kinds of events. A group is a stage with stages inside.
const (
	Begin    Kind = "begin"    // a stage or group begins: Stage, Parent, Name, Group
	End      Kind = "end"      // it ends: Status, Seconds, and Reason or Error
	Progress Kind = "progress" // within a stage: Done of Total, bytes
	Info     Kind = "info"     // Message, for the person
	Warning  Kind = "warning"  // Message, for the person to act on
	Log      Kind = "log"      // Message, lines of the log Name
	Planned  Kind = "plan"     // Plan
)

// Status says how a stage ended.
type Status string

// The ways a stage ends.
const (
	Finished Status = "finished"
	Skipped  Status = "skipped"
	Failed   Status = "failed"
	Stopped  Status = "interrupted" // by a signal or a question without an answer
)

// Event is one thing a run tells as it goes; as JSON it is one line of the
// machine-readable output.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"kind"`
	Stage   int       `json:"stage,omitempty"`  // number of the stage in this run, from 1
	Parent  int       `json:"parent,omitempty"` // stage it belongs to, 0 for none
	Group   bool      `json:"group,omitempty"`
	Name    string    `json:"name,omitempty"`
	Status  Status    `json:"status,omitempty"`
	Reason  string    `json:"reason,omitempty"` // why it was skipped
	Error   string    `json:"error,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`
	Done    int64     `json:"done,omitempty"`
	Total   int64     `json:"total,omitempty"` // 0: not known
	Message string    `json:"message,omitempty"`
	Plan    *Plan     `json:"plan,omitempty"`
}

// reporter numbers stages and passes events on one at a time.
type reporter struct {
	mu     sync.Mutex
	stages int
	report func(Event)
}

func (p *reporter) emit(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Time = time.Now()
	p.report(e)
}

// stage is a running stage; the zero number is the run itself.
type stage struct {
	rep     *reporter
	number  int
	parent  int
	group   bool
	name    string
	started time.Time
}

func (s *stage) begin(name string, group bool) *stage {
	s.rep.mu.Lock()
	s.rep.stages++
	child := &stage{rep: s.rep, number: s.rep.stages, parent: s.number, group: group, name: name, started: time.Now()}
	s.rep.mu.Unlock()
	s.rep.emit(Event{Kind: Begin, Stage: child.number, Parent: child.parent, Group: group, Name: name})
	return child
}

// end reports how the stage ended and returns err, or nil where err only says
// that there was nothing to do.
func (s *stage) end(err error) error {
	e := Event{Kind: End, Stage: s.number, Parent: s.parent, Group: s.group, Name: s.name, Status: Finished, Seconds: time.Since(s.started).Seconds()}
	var why skip
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

// do runs fn as a stage inside s.
func (s *stage) do(name string, fn func(*stage) error) error {
	child := s.begin(name, false)
	return child.end(fn(child))
}

// progress reports how far the stage is, for functions that count bytes.
func (s *stage) progress(done, total int64) {
	s.rep.emit(Event{Kind: Progress, Stage: s.number, Parent: s.parent, Name: s.name, Done: done, Total: total})
}

func (s *stage) info(message string)    { s.rep.emit(Event{Kind: Info, Message: message}) }
func (s *stage) warning(message string) { s.rep.emit(Event{Kind: Warning, Message: message}) }

// skip is the error of a stage that had nothing to do; its text is the reason.
type skip string

func (s skip) Error() string { return string(s) }
