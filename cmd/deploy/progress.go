package deploy

import (
	"sync"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// progress decides whether a deploy is given up because files have changed: before its
// first step, which has done nothing yet, and while it waits for the jobs. All other
// steps end sooner than they would if they were done again.
type progress struct {
	giveUp func()
	asking func() bool // a person is asked

	mu      sync.Mutex
	step    plan.Kind // that has begun last; empty: none
	changed bool
}

// event takes note of an event of the deploy.
func (p *progress) event(e report.Event) {
	if e.Kind != report.Step {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = plan.Kind(e.Name)
	p.decide()
}

// saved takes note that files have changed.
func (p *progress) saved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = true
	p.decide()
}

func (p *progress) decide() {
	if p.changed && !p.asking() && (p.step == "" || p.step.Starts()) {
		p.giveUp()
	}
}
