package deploy

import (
	"sync"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// progress decides whether a deploy is ended early because files have changed: before its
// first step, when it has changed nothing, and while it waits for the jobs. All other
// steps are finished, which is faster than repeating them.
type progress struct {
	giveUp func()
	asking func() bool // reports whether a question waits for its answer

	mu      sync.Mutex
	step    plan.Kind // the step that began last; empty: none
	changed bool
}

// event updates the progress after an event of the deploy.
func (p *progress) event(e report.Event) {
	if e.Kind != report.Step {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = plan.Kind(e.Name)
	p.decide()
}

// saved records that files have changed.
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
