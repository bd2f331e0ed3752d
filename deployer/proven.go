package deployer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// suspected returns the processes that were failing before a deploy which does not change the
// jobs, with the seconds that each must run afterwards: it may be in a crash loop.
func (r *run) suspected() map[string]int {
	for _, c := range r.plan.Changes {
		known := func(why plan.Reason) bool { return why.Cause == plan.ProcessState || why.Cause == plan.NotProven }
		if c.What == plan.Jobs && slices.ContainsFunc(c.Why, func(why plan.Reason) bool { return !known(why) }) {
			return nil
		}
	}
	needs := map[string]int{}
	for _, p := range r.look.Facts.Now.Processes {
		if p.State == "failing" {
			needs[p.Name] = int(youngest.Seconds())
		}
	}
	return needs
}

// youngest is how long a process must run that has begun since the last deploy. A deploy that
// changes nothing watches a younger one, which may be in a crash loop.
const youngest = 5 * time.Second

// expect adds processes that have ended before the first answer, with the seconds that each
// must run until it counts as running.
func (c *crashes) expect(needs map[string]int) {
	for name, need := range needs {
		was := c.seen[name]
		if was == nil {
			was = &crash{at: c.began}
			c.seen[name] = was
		}
		was.failed, was.least = true, max(was.least, time.Duration(need)*time.Second)
	}
}

// needed returns the processes that have ended, with the seconds that each must run until it
// counts as running; nil: none has.
func (c *crashes) needed() map[string]int {
	var needs map[string]int
	for name, was := range c.seen {
		if was.failed {
			if needs == nil {
				needs = map[string]int{}
			}
			needs[name] = int(c.needs(was).Seconds())
		}
	}
	return needs
}

// recordUnproven records which processes have ended if the jobs do not run, and otherwise that
// none is known: the next deploy must not take one that ends soon for a running one.
func (j *jobs) recordUnproven(failed bool) error {
	var of *state.Unproven
	if needs := j.history().needed(); failed && needs != nil {
		of = &state.Unproven{Spec: plan.Digest(j.journal.Salt(), plan.PartSpec, j.history().spec), Seconds: needs}
	}
	if of == nil && j.rec.State.Get().Own.Unproven == nil {
		return nil
	}
	err := j.rec.State.Update(func(st *state.State) error {
		st.Own.Salt, st.Own.Unproven = j.journal.Salt(), of
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot record which processes have ended: %w", err)
	}
	return nil
}

// proveRunning watches the jobs at the end of a deploy that changes nothing, if a process has
// begun a moment ago and after the last deploy: it may be in a crash loop. Processes that run
// for longer, or since the deploy, cost no time.
func (r *run) proveRunning(ctx context.Context) error {
	st := r.t.State.Get()
	if r.plan.Stopped || r.agent == nil || st.Own.Deployed == nil {
		return nil
	}
	seen, at := r.jobs.history(), r.look.Facts.At
	recorded := st.Own.Deployed.Add(time.Second) // It has no fractions of a second.
	young := map[string]int{}
	for _, p := range r.look.Facts.Now.Processes {
		life := time.Duration(p.Uptime.Secs) * time.Second
		if p.State == "running" && life < youngest && at.Add(-life).Sub(recorded) > seen.slack() {
			young[p.Name] = int(youngest.Seconds())
		}
	}
	if len(young) == 0 {
		return nil
	}
	seen.expect(young)
	return r.jobs.awaitFor(ctx, 0)
}
