package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/wait"
)

// A wait reports nothing for the time quiet, because most waits end before that. Then it
// reports the cause whenever it changes, and at least every interval.
const (
	quiet    = 5 * time.Second
	interval = 30 * time.Second
)

// Wait reports from time to time why a stage waits, and since when.
type Wait struct {
	// End ends the wait.
	End func()

	stage *Stage
	began time.Time

	mu    sync.Mutex
	found string
	told  string // the last reported cause; empty: nothing was reported
}

// Wait begins a wait in the stage; the caller must call End.
func (s *Stage) Wait(ctx context.Context) *Wait {
	w := &Wait{stage: s, began: time.Now(), found: "no answer so far"}
	w.End = wait.Remind(ctx, quiet, interval, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.emit()
	})
	return w
}

func (w *Wait) emit() {
	w.told = w.found
	w.stage.rep.emit(Event{Kind: Waiting, Stage: w.stage.number, Parent: w.stage.parent, Name: w.stage.name, Message: w.found, Seconds: time.Since(w.began).Seconds()})
}

// Say sets the cause of the wait.
func (w *Wait) Say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = text
	if w.told != "" && w.told != text {
		w.emit()
	}
}

// Probe is like Say, for a failed attempt to reach the agent.
func (w *Wait) Probe(met agent.Probe) {
	w.Say(fmt.Sprintf("the agent does not answer yet: %s", met))
}
