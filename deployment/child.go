package deployment

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployment/record"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
)

// start starts a command about an instance and waits for its end, which the caller must
// pass to ended. begins is the event that is reported before the start.
func (r *runner) start(ctx context.Context, row *Row, hands *rollout.Here, t rollout.Task, begins Event) (rollout.Outcome, error) {
	if r.Confirm != nil {
		if err := r.Confirm(ctx); err != nil {
			r.release(row) // The others of its group wait for that.
			return rollout.Outcome{}, err
		}
	}
	t.Member, t.Killed, t.Logs = r.member(row.in, r.dir), true, r.Logs
	end := make(chan rollout.Outcome, 1)
	r.mu.Lock()
	if len(r.failure) > 0 || ctx.Err() != nil {
		r.mu.Unlock()
		r.release(row)
		return rollout.Outcome{}, errStopped
	}
	if begins.Status != Creating {
		r.left--
	}
	r.ends[t.Member.Name], r.begun[row.Name], r.busy[row.Name] = end, time.Now(), true
	r.mu.Unlock()
	r.report(row, begins)
	if err := hands.Start(ctx, t); err != nil {
		r.release(row)
		return rollout.Outcome{}, err
	}
	return <-end, nil
}

// release marks an instance as one that does not change any more.
func (r *runner) release(row *Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, row.Name)
	close(r.someEnded)
	r.someEnded = make(chan struct{})
}

// ended reports how a command about an instance ended.
func (r *runner) ended(ctx context.Context, row *Row, outcome rollout.Outcome, well Status) error {
	defer r.release(row) // after a failure is recorded: whoever waits for the release sees it
	r.mu.Lock()
	took := time.Since(r.begun[row.Name])
	r.mu.Unlock()
	e := Event{Status: well, Seconds: took.Seconds(), Log: filepath.Join(r.Logs, r.member(row.in, r.dir).Name+".log")}
	if outcome.Verdict == schedule.Done || outcome.Verdict == schedule.Unchanged {
		r.mu.Lock()
		r.ran[row.Name] = well == Done && !row.stopped
		if r.ran[row.Name] {
			r.started[row.Name] = deployer.Ran{Begun: r.begun[row.Name], At: time.Now()}
		}
		r.see(row.in)
		r.mu.Unlock()
		r.report(row, e)
		return nil
	}
	e.Status, e.Error, e.Hint = Failed, outcome.Error, outcome.Hint
	if ctx.Err() != nil && outcome.Verdict == schedule.Interrupted {
		e.Status, e.Error, e.Hint = Interrupted, "", ""
		if well != Created { // that one counts as not started
			r.mu.Lock()
			r.halted++
			r.mu.Unlock()
		}
	} else {
		r.fail("%s: %s", row.Name, outcome.Error)
		if well == Created { // its failure is reported
			r.mu.Lock()
			r.left--
			r.mu.Unlock()
		}
	}
	r.report(row, e)
	return errStopped
}

// see makes the record describe the state that a command about an instance has left. The
// caller holds r.mu, and saves the record later.
func (r *runner) see(in *record.Instance) {
	if st, found, err := r.record.ReadState(in, r.Base.Home); err == nil && found {
		in.Whose(st)
	}
}

// fail adds a reason for which the run fails.
func (r *runner) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = append(r.failure, fmt.Sprintf(format, args...))
}

// report reports an event of an instance.
func (r *runner) report(row *Row, e Event) {
	e.Time, e.Instance, e.Command = time.Now(), row.Name, r.does
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Report(e)
}

// showProgress reports a step of a command, or passes on its end.
func (r *runner) showProgress(p rollout.Progress) {
	switch {
	case p.Ended != nil:
		r.mu.Lock()
		end := r.ends[p.Member]
		r.mu.Unlock()
		end <- *p.Ended
	case p.Step != "":
		r.report(r.of[p.Member], Event{Status: Stepped, Step: p.Step, Down: p.Down})
	}
}
