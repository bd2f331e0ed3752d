package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
)

// EndedError says that a run failed or was interrupted.
type EndedError struct {
	Record *Record
}

func (e *EndedError) Error() string {
	what := "updated"
	switch e.Record.Action {
	case fleet.DeleteStrategy:
		what = "deleted"
	case fleet.StopStrategy:
		what = "stopped"
	case fleet.StartStrategy:
		what = "started"
	case fleet.RestartStrategy:
		what = "restarted"
	}
	text := fmt.Sprintf("the fleet %s is not %s: %s", e.Record.Name, what, e.Record.Reason)
	if e.Record.Errand != "" {
		text = fmt.Sprintf("the errand %s has not succeeded on the fleet %s: %s", e.Record.Errand, e.Record.Name, e.Record.Reason)
	}
	if len(e.Record.Count()) > 1 {
		text += " (" + e.Record.Summary() + ")"
	}
	return text
}

func (e *EndedError) Name() string { return "fleet-failed" }

func (e *EndedError) ExitCode() failure.Code {
	switch e.Record.Result {
	case Busy:
		return failure.Locked
	case Interrupted, Aborted:
		return failure.Interrupted
	}
	code := failure.Failed
	for _, m := range e.Record.Members {
		if e.Record.Errand != "" && m.Verdict == schedule.Failed {
			code = max(code, failure.Code(m.ExitCode)) // as of an errand on several instances
		}
	}
	return code
}

func (e *EndedError) Hint() string {
	again := e.Record.again()
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

// again returns the command that does the same with the same members.
func (r *Record) again() string {
	verb := "deploy"
	if r.Action != fleet.UpdateStrategy {
		verb = string(r.Action)
	}
	words := []string{"bootstrap fleet", verb, r.Fleet}
	if r.Errand != "" {
		words = append(words, r.Errand)
	}
	for _, word := range strings.Fields(r.Chosen) {
		created, isTime := strings.CutPrefix(word, "--created-before=")
		seconds, wrong := strconv.ParseInt(created, 10, 64)
		before, err := time.Unix(seconds, 0).UTC().MarshalText()
		switch {
		case isTime && wrong == nil && err == nil:
			words = append(words, "--created-before "+string(before))
		case strings.HasPrefix(word, "--"):
			words = append(words, word)
		default:
			words = append(words, "--only "+word)
		}
	}
	return "\"" + strings.Join(words, " ") + "\""
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
