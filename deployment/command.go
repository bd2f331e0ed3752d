package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
)

// longestWait is how long a command about an instance waits for another process that has
// locked the state of the instance.
const longestWait = 2 * time.Hour

// command runs a command about one instance, which do is, and reports its begin and its end.
// well is the status after it has succeeded. The error is errStopped, or errGivenUp, after a
// failure, which is reported.
func (r *runner) command(ctx context.Context, row *Row, begins Event, well Status, do func(context.Context, deployer.Options) error) error {
	one, err := r.begins(ctx, row, begins)
	if err != nil {
		r.release(row) // The others of its group wait for that.
		return err
	}
	r.report(row, begins)
	return r.ended(ctx, row, r.inLog(ctx, row, one, do), well)
}

// begins marks an instance as changing, and returns the options of the command about it.
func (r *runner) begins(ctx context.Context, row *Row, begins Event) (one deployer.Options, err error) {
	if r.Confirm != nil {
		if err := r.Confirm(ctx); err != nil {
			return one, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || ctx.Err() != nil {
		return one, errStopped
	}
	if begins.Status != Creating {
		r.left--
	}
	r.begun[row.Name], r.busy[row.Name] = time.Now(), true
	all := r.record.Clone() // The run changes its record meanwhile.
	in, found := all.ByID(row.ID)
	if !found {
		in = row.in
	}
	one, err = r.about(all, in)
	if r.links != nil {
		one.Connections = r.links.Again()
	}
	one.OfAll, one.LockWait, one.SkipPostDeploy = true, longestWait, false
	return one, err
}

// inLog runs a command about an instance with its output in a log, and reports its steps. A
// panic is the failure of this instance alone.
func (r *runner) inLog(ctx context.Context, row *Row, one deployer.Options, do func(context.Context, deployer.Options) error) error {
	log, err := os.OpenFile(r.logOf(row), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the log of %s: %w", row.Name, err)
	}
	defer log.Close()
	show, end := r.Output(log)
	var mu sync.Mutex
	one.Report = func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == report.Step {
			r.report(row, Event{Status: Stepped, Step: e.Name, Down: e.Down})
		}
		show(e)
	}
	apart, run := guard.Begin(ctx)
	err = guard.Call(func() error { return do(apart, one) })
	if panicked := run.Panic(); panicked != nil {
		err = panicked
	}
	mu.Lock()
	defer mu.Unlock()
	return end(err)
}

// logOf returns the path of the log of an instance.
func (r *runner) logOf(row *Row) string {
	return filepath.Join(r.Logs, fmt.Sprintf("%s-%d.log", row.in.Group, row.in.Index))
}

// release marks an instance as one that does not change any more.
func (r *runner) release(row *Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, row.Name)
	delete(r.seen, row.Name)
	close(r.someEnded)
	r.someEnded = make(chan struct{})
}

// ended reports how a command about an instance ended. The error is errGivenUp if the
// instance has failed and the run continues.
func (r *runner) ended(ctx context.Context, row *Row, err error, well Status) error {
	defer r.release(row) // after a failure is recorded: whoever waits for the release sees it
	e, failed := r.judge(ctx, row, err, well)
	r.report(row, e)
	return failed
}

// judge records how a command about an instance ended, and returns the event that reports it.
func (r *runner) judge(ctx context.Context, row *Row, err error, well Status) (e Event, failed error) {
	_, interrupted := errors.AsType[*report.InterruptedError](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	e = Event{Status: well, Seconds: time.Since(r.begun[row.Name]).Seconds(), Log: r.logOf(row)}
	switch {
	case err == nil:
		r.ran[row.Name] = well == Done && !row.stopped
		if r.ran[row.Name] {
			r.started[row.Name] = deployer.Ran{Begun: r.begun[row.Name], At: time.Now()}
		}
		r.see(row.in)
		return e, nil
	case interrupted && ctx.Err() != nil:
		e.Status = Interrupted
		if well != Created { // that one counts as not started
			r.halted++
		}
		return e, errStopped
	}
	e.Status, e.Error, e.Hint = Failed, err.Error(), r.Advice(err)
	r.failure = append(r.failure, fmt.Sprintf("%s: %v", row.Name, err))
	if well == Created { // its failure is reported
		r.left--
	}
	if r.continuesAfter(row, well) {
		r.failed[row.Name], r.ran[row.Name] = true, false
		return e, errGivenUp
	}
	r.over = true
	return e, errStopped
}

// continuesAfter reports whether the run continues after the failure of an instance.
func (r *runner) continuesAfter(row *Row, well Status) bool {
	return r.rules[row.in.Group].OnFailure == manifest.ContinueAfterFailure && !r.canaries[row.Name] &&
		well != Deleted && (r.does == "" || r.does == Restart)
}

// hasFailed reports whether the named instance has failed, and the run continues.
func (r *runner) hasFailed(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[name]
}

// see makes the record describe the state that a command about an instance has left. The
// caller holds r.mu, and saves the record later.
func (r *runner) see(in *record.Instance) {
	if st, found, err := r.record.ReadState(in, r.Base.Home); err == nil && found {
		in.Whose(st)
	}
}

// fail adds a reason for which the run ends.
func (r *runner) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.over = append(r.failure, fmt.Sprintf(format, args...)), true
}

// report reports an event of an instance.
func (r *runner) report(row *Row, e Event) {
	e.Time, e.Instance, e.Command = time.Now(), row.Name, r.does
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Report(e)
}
