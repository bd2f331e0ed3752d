// Package timeline records when the parts of a run began and how long they took: the
// phases before the plan, the steps, their stages, and the calls of the CPI and the
// agent.
package timeline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a Span.
type Kind string

// The kinds of spans.
const (
	Phase Kind = "phase" // before the steps of the plan, such as fetching
	Step  Kind = "step"  // a step of the plan
	Stage Kind = "stage" // within a phase or a step, such as compiling one package
	CPI   Kind = "cpi"   // a call of the CPI
	Agent Kind = "agent" // a message to the agent, including the questions about its task
)

// Status says how a span or a run ended.
type Status string

// The statuses.
const (
	Finished    Status = "finished"
	Skipped     Status = "skipped"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

// Timeline has the times of the parts of one run.
type Timeline struct {
	Command string    `json:"command"` // with the names of its flags, but without their values
	User    string    `json:"user,omitempty"`
	Host    string    `json:"host,omitempty"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // how long the run took
	Status  Status    `json:"status"`
	VM      string    `json:"vm,omitempty"` // CID of the VM at the end
	// Down are the intervals in which the service was down; the last one lasts until the
	// end of the run if StillDown is true.
	Down      []Interval `json:"down,omitempty"`
	StillDown bool       `json:"still_down,omitempty"`
	// Spans are sorted by their beginnings; the parts of a span follow directly after it.
	Spans []Span `json:"spans"`
	// Omitted is how many further calls are not listed.
	Omitted int `json:"omitted,omitempty"`
}

// Interval is a part of a run, in seconds since its beginning.
type Interval struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Span is a named part of a run.
type Span struct {
	Kind    Kind    `json:"kind"`
	Name    string  `json:"name"`
	In      int     `json:"in,omitempty"` // number of the span that contains it, from 1; 0: none
	At      float64 `json:"at"`           // seconds since the beginning of the run
	Seconds float64 `json:"seconds"`
	Status  Status  `json:"status"`
	Down    bool    `json:"down,omitempty"` // the service is down during the step
	// Calls is the number of calls in the span, if it is more than one: a repeated
	// question, or a message and the questions about its task.
	Calls int `json:"calls,omitempty"`
}

// IsCall reports whether the span is a call.
func (s Span) IsCall() bool { return s.Kind == CPI || s.Kind == Agent }

// IsTop reports whether the span is a phase or a step.
func (s Span) IsTop() bool { return s.Kind == Phase || s.Kind == Step }

// Until returns the end of the span, in seconds since the beginning of the run.
func (s Span) Until() float64 { return s.At + s.Seconds }

// IsDeploy reports whether the run was a deploy.
func (t *Timeline) IsDeploy() bool { return t.IsOf("deploy") || t.IsOf("recreate") }

// IsOf reports whether the run was one of the named command.
func (t *Timeline) IsOf(command string) bool {
	word, _, _ := strings.Cut(t.Command, " ")
	return word == command
}

// End returns when the run ended.
func (t *Timeline) End() time.Time {
	return t.Began.Add(time.Duration(t.Seconds * float64(time.Second)))
}

// Depth returns how many other spans contain the span with the index.
func (t *Timeline) Depth(i int) (depth int) {
	for in := t.Spans[i].In; in > 0 && in <= len(t.Spans) && depth < maxDepth; in = t.Spans[in-1].In {
		depth++
	}
	return depth
}

// maxDepth ends the search in a file that somebody has changed.
const maxDepth = 8

// Within returns how long calls of a kind ran within a span. Calls at the same time count
// once.
func (t *Timeline) Within(i int, kind Kind) (seconds float64) {
	var list []Interval
	for k, s := range t.Spans {
		if s.Kind != kind {
			continue
		}
		for n, depth := k, 0; n >= 0 && n < len(t.Spans) && depth <= maxDepth; n, depth = t.Spans[n].In-1, depth+1 {
			if n == i {
				list = append(list, Interval{s.At, s.Until()})
				break
			}
		}
	}
	for _, part := range union(list) {
		seconds += part.To - part.From
	}
	return Rounded(seconds)
}

// union returns the same times without overlaps.
func union(list []Interval) (merged []Interval) {
	slices.SortStableFunc(list, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	for _, part := range list {
		if last := len(merged) - 1; last >= 0 && part.From <= merged[last].To {
			merged[last].To = max(merged[last].To, part.To)
			continue
		}
		merged = append(merged, part)
	}
	return merged
}

// DownSeconds returns how long the service was down.
func (t *Timeline) DownSeconds() (seconds float64) {
	for _, part := range t.Down {
		seconds += part.To - part.From
	}
	return Rounded(seconds)
}

// Longest returns the indices of the calls that took longest, at most n, the longest
// first.
func (t *Timeline) Longest(n int) []int {
	var list []int
	for i := range t.Spans {
		if t.Spans[i].IsCall() {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(t.Spans[b].Seconds, t.Spans[a].Seconds) })
	return list[:min(n, len(list))]
}

// Top returns the index of the phase or step that contains the span.
func (t *Timeline) Top(i int) int {
	for depth := 0; t.Spans[i].In > 0 && t.Spans[i].In <= len(t.Spans) && depth < maxDepth; depth++ {
		i = t.Spans[i].In - 1
	}
	return i
}

// Rounded rounds seconds to milliseconds.
func Rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }
