package rollout

import (
	"fmt"
	"slices"
	"time"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
)

// EndedError says that a run did not end well.
type EndedError struct {
	Record *Record
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("the fleet %s is not updated: %s", e.Record.Name, e.Record.Reason)
	if len(e.Record.Count()) > 1 {
		text += " (" + e.Record.Summary() + ")"
	}
	return text
}

// Next returns the command that goes on.
func (e *EndedError) Next() string {
	again := again(e.Record.Action, e.Record.Fleet)
	switch e.Record.Result {
	case Failed:
		return fmt.Sprintf("\"bootstrap fleet status %s\" names the reasons and the logs; correct the cause, then %s does what is left", e.Record.Fleet, again)
	case Busy:
		return again + " tries these again"
	case Aborted:
		return again + " begins a new run"
	}
	return again + " does what is left"
}

// again returns the command that does the same with a fleet.
func again(action fleet.Strategy, fleetFile string) string {
	verb := "deploy"
	if action == fleet.RecreateStrategy {
		verb = "recreate"
	}
	return fmt.Sprintf("\"bootstrap fleet %s %s\"", verb, fleetFile)
}

// end records the end of the run.
func (c *coordinator) end() error {
	r, now := c.record, time.Now().UTC()
	counts := r.Count()
	canaryFailed := slices.ContainsFunc(r.Members, func(m *Member) bool { return m.Canary && m.Verdict == schedule.Failed })
	switch {
	case c.aborted:
		r.Result, r.Reason = Aborted, c.why
	case canaryFailed:
		r.Result, r.Reason = Failed, "a canary failed"
	case counts[schedule.Failed] > 0:
		r.Result, r.Reason = Failed, fmt.Sprintf("%d members failed", counts[schedule.Failed])
		if counts[schedule.Failed] == 1 {
			r.Reason = "1 member failed"
		}
	case c.why != "" && counts[schedule.Waiting]+counts[schedule.Busy]+counts[schedule.Interrupted] > 0:
		r.Result, r.Reason = Interrupted, c.why
	case counts[schedule.Interrupted] > 0:
		r.Result, r.Reason = Interrupted, "a member was interrupted"
	case counts[schedule.Busy] > 0:
		r.Result, r.Reason = Busy, "other runs still lock some members"
	default:
		r.Result, r.Reason = Done, ""
	}
	for _, m := range r.Members {
		if m.Verdict == schedule.Waiting {
			m.Verdict = schedule.NotStarted
		}
	}
	r.Ended, r.Paused = &now, false
	if err := c.save(); err != nil {
		return err
	}
	c.emit(Event{Kind: Over, Run: r.ID, Status: string(r.Result), Reason: r.Reason, Counts: c.counts()})
	if r.Result != Done {
		return &EndedError{Record: r}
	}
	return nil
}
