package timeline

import (
	"slices"
	"sync"
	"time"
)

// The limits of a timeline.
const (
	maxSpans = 400 // further calls are only counted
	maxName  = 200 // in characters
	// short phases are listed only if they contain something
	short = 10 * time.Millisecond
)

// Recorder records the timeline of a run, from any number of goroutines. A nil Recorder
// records nothing.
type Recorder struct {
	mu      sync.Mutex
	began   time.Time
	spans   []*span
	top     *span // the running phase or step
	stages  map[int]*span
	calls   map[call][]*span // running calls, the first one first
	task    *span            // the agent's message whose task may be asked for
	down    []Interval
	since   time.Duration // when the service went down
	isDown  bool
	steps   int
	omitted int
	status  Status // the worst status of the parts that have ended; empty: none has
}

// span is a Span that may still be running.
type span struct {
	kind     Kind
	name     string
	in       *span
	at, end  time.Duration
	open     int // how many of its calls are running
	calls    int
	status   Status
	down     bool
	unlisted bool // true: it contains the steps
}

type call struct {
	kind   Kind
	method string
}

// NewRecorder begins a timeline.
func NewRecorder() *Recorder {
	return &Recorder{began: time.Now(), stages: map[int]*span{}, calls: map[call][]*span{}}
}

// Begin begins a phase.
func (r *Recorder) Begin(phase string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.top = r.add(&span{kind: Phase, name: phase})
}

// BeginStep begins a step of the plan. The phase that contains the steps is not listed.
// down says whether the service is down during the step.
func (r *Recorder) BeginStep(name string, down bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.top != nil && r.top.kind == Phase {
		r.top.unlisted = true
	}
	r.top = r.add(&span{kind: Step, name: name, down: down})
	r.steps++
	r.setDown(down, r.top.at)
}

// Up records that the service is up again, before the next step.
func (r *Recorder) Up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setDown(false, time.Since(r.began))
}

func (r *Recorder) setDown(down bool, at time.Duration) {
	switch {
	case down && !r.isDown:
		r.since = at
	case !down && r.isDown:
		r.down = append(r.down, Interval{Rounded(r.since.Seconds()), Rounded(at.Seconds())})
	}
	r.isDown = down
}

// Down returns how long the service has been down, in seconds, and whether it is.
func (r *Recorder) Down() (seconds float64, still bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range r.outages(time.Since(r.began)) {
		seconds += part.To - part.From
	}
	return seconds, r.isDown
}

// outages returns the intervals until now in which the service was down.
func (r *Recorder) outages(now time.Duration) []Interval {
	list := slices.Clone(r.down)
	if r.isDown {
		list = append(list, Interval{Rounded(r.since.Seconds()), Rounded(now.Seconds())})
	}
	return list
}

// End ends the running phase or step.
func (r *Recorder) End(status Status) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.top != nil {
		r.close(r.top, status)
		r.top = nil
	}
	r.task = nil
}

// BeginStage begins the stage with the number, within the stage in, or within the phase
// or step.
func (r *Recorder) BeginStage(number, in int, name string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	parent := r.stages[in]
	if parent == nil {
		parent = r.top
	}
	if r.isFull() {
		return
	}
	r.stages[number] = r.add(&span{kind: Stage, name: name, in: parent})
}

// EndStage ends a stage.
func (r *Recorder) EndStage(number int, status Status) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stages[number]; s != nil {
		r.close(s, status)
		delete(r.stages, number)
	}
}

// Call records the beginning ("before") or the end ("after") of a call. Consecutive
// questions are one span. A message to the agent lasts until the last question about its
// task.
func (r *Recorder) Call(kind Kind, method, moment string) {
	if r == nil || moment != "before" && moment != "after" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	which := call{kind, method}
	if moment == "before" {
		if s := r.spanOf(kind, method); s != nil {
			s.open++
			s.calls++
			r.calls[which] = append(r.calls[which], s)
		}
		return
	}
	if list := r.calls[which]; len(list) > 0 {
		r.calls[which] = list[1:]
		if list[0].open--; list[0].open == 0 {
			list[0].end = time.Since(r.began)
			list[0].status = Finished
		}
	}
}

// spanOf returns the span of a call; nil: it is not listed.
func (r *Recorder) spanOf(kind Kind, method string) *span {
	if kind == Agent && method == "get_task" && r.task != nil {
		return r.task
	}
	in := r.inner()
	last := r.last(in)
	if last != nil && last.kind == kind && last.name == method && (asks(method) || r.isFull()) {
		r.asked(last)
		return last
	}
	if r.isFull() {
		r.omitted++
		return nil
	}
	s := r.add(&span{kind: kind, name: method, in: in})
	r.asked(s)
	return s
}

// asked records the message whose task the agent may be asked for.
func (r *Recorder) asked(s *span) {
	if s.kind == Agent {
		r.task = s
	}
}

// asks reports whether a call of that method is only a question.
func asks(method string) bool {
	switch method {
	case "ping", "get_state", "get_task", "list_disk", "info", "has_vm", "has_disk":
		return true
	}
	return false
}

// inner returns the running stage that began last, or the phase or step.
func (r *Recorder) inner() *span {
	for i := len(r.spans) - 1; i >= 0; i-- {
		s := r.spans[i]
		if s == r.top {
			break
		}
		if s.kind == Stage && s.status == "" {
			return s
		}
	}
	return r.top
}

// last returns the last span within another one.
func (r *Recorder) last(in *span) *span {
	for i := len(r.spans) - 1; i >= 0 && r.spans[i] != in; i-- {
		if r.spans[i].in == in {
			return r.spans[i]
		}
	}
	return nil
}

func (r *Recorder) isFull() bool { return len(r.spans) >= maxSpans }

func (r *Recorder) add(s *span) *span {
	s.at = time.Since(r.began)
	r.spans = append(r.spans, s)
	return s
}

func (r *Recorder) close(s *span, status Status) {
	s.end, s.status = time.Since(r.began), status
}

// Elapsed returns how long the run has taken so far, and how many steps have begun.
func (r *Recorder) Elapsed() (seconds float64, steps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Rounded(time.Since(r.began).Seconds()), r.steps
}

// Timeline returns the recorded timeline of a run that ended with a status. Parts that
// are still running end now. If any part has failed, the run has failed, even if it
// continued. clean replaces secrets in the names of stages, which may contain names from
// the manifest.
func (r *Recorder) Timeline(status Status, clean func(string) string) *Timeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == "" || r.status == Finished {
		r.status = status
	}
	now := time.Since(r.began)
	t := &Timeline{
		Began: r.began.UTC().Round(time.Millisecond), Seconds: Rounded(now.Seconds()), Status: r.status,
		Down: r.outages(now), StillDown: r.isDown, Spans: []Span{}, Omitted: r.omitted,
	}
	within := map[*span][]*span{}
	for i := len(r.spans) - 1; i >= 0; i-- { // children follow their parent in the list
		if s := r.spans[i]; len(within[s]) > 0 || r.isListed(s) {
			within[s.in] = append(within[s.in], s)
		}
	}
	var list func(of *span, number int)
	list = func(of *span, number int) {
		for _, s := range slices.Backward(within[of]) {
			v := s.until(now, status, number)
			if v.Kind == Stage {
				v.Name = shortened(clean(v.Name)) // In this order, because a part of a secret would not be recognized.
			}
			t.Spans = append(t.Spans, v)
			list(s, len(t.Spans))
		}
	}
	list(nil, 0)
	return t
}

// shortened returns a name of at most maxName characters.
func shortened(name string) string {
	if list := []rune(name); len(list) > maxName {
		return string(list[:maxName-1]) + "…"
	}
	return name
}

// until returns the part of a span until now, with a status. in is the number of its
// parent.
func (s span) until(now time.Duration, status Status, in int) Span {
	if s.status == "" || s.open > 0 {
		s.end, s.status = now, status
	}
	v := Span{Kind: s.kind, Name: s.name, In: in, At: Rounded(s.at.Seconds()), Status: s.status, Down: s.down}
	v.Seconds = Rounded((s.end - s.at).Seconds())
	if s.calls > 1 {
		v.Calls = s.calls
	}
	return v
}

// isListed reports whether a span is listed even if it contains nothing.
func (r *Recorder) isListed(s *span) bool {
	switch {
	case s.unlisted:
		return false
	case s.kind == Phase:
		return s.status == "" || s.status == Failed || s.end-s.at >= short
	}
	return s.kind != Stage || s.status != Skipped
}
