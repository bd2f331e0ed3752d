package deployer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/wait"
)

// A wait is silent for patientFor, as most end by then, and then tells every
// patientEvery what it waits for.
const (
	patientFor   = 5 * time.Second
	patientEvery = 30 * time.Second
)

// patience tells what a wait has met last, and for how long it lasts.
type patience struct {
	tell  func(string)
	began time.Time

	end func()

	mu  sync.Mutex
	met string
}

// patient begins a wait in the stage; its end must be called.
func (s *stage) patient(ctx context.Context) *patience {
	p := &patience{tell: s.info, began: time.Now(), met: "nothing was heard so far"}
	p.end = wait.Remind(ctx, patientFor, patientEvery, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tell(fmt.Sprintf("  after %s: %s", time.Since(p.began).Round(time.Second), p.met))
	})
	return p
}

// say keeps what is told when it is time to tell something.
func (p *patience) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met = text
}

// probe is say for a look at the agent.
func (p *patience) probe(met agent.Probe) {
	p.say(fmt.Sprintf("the agent does not answer yet: %s", met))
}

// awaitAgent waits until the agent answers, and tells meanwhile what it waits
// for. why is what may have taken the agent away; empty: nothing special.
func (r *run) awaitAgent(ctx context.Context, s *stage, client *agent.Client, limit time.Duration, why string) error {
	told := s.patient(ctx)
	defer told.end()
	return client.WaitReady(ctx, limit, func(met agent.Probe) {
		told.probe(met)
		if why != "" {
			told.say(fmt.Sprintf("the agent does not answer yet after %s: %s", why, met))
		}
	})
}
