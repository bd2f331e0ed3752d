package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/wait"
)

// A wait reports nothing for quiet, because most waits end by then. After that
// it reports every interval what it waits for.
const (
	quiet    = 5 * time.Second
	interval = 30 * time.Second
)

// Wait reports from time to time what a stage waits for, and since when.
type Wait struct {
	// End ends the wait.
	End func()

	mu    sync.Mutex
	found string
}

// Wait begins a wait in the stage; the caller must call End.
func (s *Stage) Wait(ctx context.Context) *Wait {
	w := &Wait{found: "no answer so far"}
	began := time.Now()
	w.End = wait.Remind(ctx, quiet, interval, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.Info(fmt.Sprintf("  after %s: %s", time.Since(began).Round(time.Second), w.found))
	})
	return w
}

// Say remembers the text for the next report.
func (w *Wait) Say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = text
}

// Probe is like Say, for a failed attempt to reach the agent.
func (w *Wait) Probe(met agent.Probe) {
	w.Say(fmt.Sprintf("the agent does not answer yet: %s", met))
}
