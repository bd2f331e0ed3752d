package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
)

// Event is a change of the status of an instance during a run.
type Event struct {
	Time     time.Time `json:"time"`
	Instance string    `json:"instance"`          // GROUP/INDEX
	Command  Lifecycle `json:"command,omitempty"` // stop, start or restart
	Status   Status    `json:"status"`
	Step     string    `json:"step,omitempty"` // the step that begins
	Down     bool      `json:"down,omitempty"` // true: the instance does not serve during the step
	Canary   bool      `json:"canary,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"` // since the instance was started
	Error    string    `json:"error,omitempty"`
	Hint     string    `json:"hint,omitempty"`
	Log      string    `json:"log,omitempty"` // path of the file with its output
}

// Status is the status of an instance during a run.
type Status string

// The statuses.
const (
	Started Status = "started"
	Stepped Status = "step"
	Done    Status = "done"
	Deleted Status = "deleted"
	Failed  Status = "failed"
	// Interrupted is an instance that a signal ended at a safe step.
	Interrupted Status = "interrupted"
)

// errStopped ends the other parts of a run after a failure.
var errStopped = errors.New("the run ends")

// runner carries out a plan.
type runner struct {
	Options
	dir    string // folder of the record
	record *record.Record
	all    *record.Record  // as it was when the run began
	rows   map[string]*Row // by the name of the instance
	of     map[string]*Row // by the name of the fleet member

	deploys, deletes *rollout.Here

	does Lifecycle // empty: a deploy or delete

	// change changes one instance of a lot.
	change func(ctx context.Context, row *Row, canary bool) error

	mu      sync.Mutex
	ends    map[string]chan rollout.Outcome // by the name of the fleet member: gets the outcome of its process
	begun   map[string]time.Time
	ran     map[string]bool // instances that were running when the run began
	busy    map[string]bool // instances that change
	left    int             // instances that are not started yet
	halted  int             // instances that a signal ended
	failure []string
}

// newRunner returns a runner of a plan, without processes.
func newRunner(o Options, all *record.Record, p *Plan, dir string) *runner {
	r := &runner{
		Options: o, dir: dir, record: all, all: all.Copy(), rows: map[string]*Row{}, of: map[string]*Row{}, ends: map[string]chan rollout.Outcome{},
		begun: map[string]time.Time{}, ran: map[string]bool{}, busy: map[string]bool{},
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		r.rows[row.Name], r.of[r.member(row.in, dir).Name] = row, row
		if row.changes() {
			r.left++
		}
	}
	return r
}

// Run saves the record of the draft, and carries out the plan. The error is an
// *EndedError if an instance fails.
func Run(ctx context.Context, o Options, draft *Draft, p *Plan, dir string) error {
	if err := os.MkdirAll(o.Logs, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the logs: %w", err)
	}
	if err := draft.Record.Save(); err != nil {
		return err
	}
	r := newRunner(o, draft.Record, p, dir)
	r.change = r.deploy
	r.deploys = rollout.NewHere(o.program("deploy"), len(p.Rows), r.tell)
	r.deletes = rollout.NewHere(o.program("delete"), len(p.Rows), r.tell)
	stop := guard.AfterDone(ctx, func() {
		r.deploys.Interrupt("")
		r.deletes.Interrupt("")
	})
	defer stop()
	r.findRunning(ctx, p)
	err := r.each(ctx, p.Gone, atOnce, r.delete)
	for _, stage := range p.Stages {
		if err == nil {
			err = r.stage(ctx, stage)
		}
	}
	switch {
	case ctx.Err() != nil && (err != nil || r.left > 0), len(r.failure) > 0:
		return &EndedError{Deployment: p.Deployment, Failures: r.failure, Left: r.left, Interrupted: r.halted, Signal: ctx.Err() != nil}
	case err != nil:
		return err
	}
	if len(r.record.Instances) == 0 || draft.Alone && !p.partial() {
		return r.record.Forget()
	}
	if !p.partial() {
		now := time.Now().UTC().Truncate(time.Second)
		r.record.Deployed = &now
	}
	return r.record.Save()
}

// stage changes the groups of a stage at the same time.
func (r *runner) stage(ctx context.Context, stage order.Stage) error {
	var turns []<-chan error
	for _, turn := range stage {
		turns = append(turns, guard.Start(ctx, func() error { return r.turn(ctx, turn) }))
	}
	var errs []error
	for _, t := range turns {
		errs = append(errs, <-t)
	}
	return errors.Join(errs...)
}

// turn changes one group.
func (r *runner) turn(ctx context.Context, turn order.Turn) error {
	remove := func() error { return r.each(ctx, turn.Delete.IDs, max(turn.Delete.Width, 1), r.delete) }
	if !turn.Delete.Last {
		if err := remove(); err != nil {
			return err
		}
	}
	for _, lot := range turn.Lots {
		canary := func(ctx context.Context, row *Row) error { return r.change(ctx, row, true) }
		if err := r.each(ctx, lot.Canaries, lot.Width, canary); err != nil {
			return err
		}
		rest := func(ctx context.Context, row *Row) error { return r.change(ctx, row, false) }
		if err := r.each(ctx, lot.Rest, lot.Width, rest); err != nil {
			return err
		}
	}
	if turn.Delete.Last {
		return remove()
	}
	return nil
}

// each calls do for the named instances, at most width at the same time. After a failure
// it starts no other one.
func (r *runner) each(ctx context.Context, names []string, width int, do func(context.Context, *Row) error) error {
	next := make(chan string)
	var workers []<-chan error
	for range min(width, len(names)) {
		workers = append(workers, guard.Start(ctx, func() error {
			var first error
			for name := range next {
				if first == nil {
					first = do(ctx, r.rows[name])
				}
			}
			return first
		}))
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	var errs []error
	for _, w := range workers {
		errs = append(errs, <-w)
	}
	return errors.Join(errs...)
}

// deploy deploys one instance.
func (r *runner) deploy(ctx context.Context, row *Row, canary bool) error {
	if err := r.guard(ctx, row); err != nil {
		return err
	}
	outcome, err := r.start(ctx, row, r.deploys, rollout.Task{Action: fleet.UpdateStrategy}, canary)
	if err != nil {
		return err
	}
	return r.ended(ctx, row, outcome, Done)
}

// delete deletes one instance, and removes it from the record.
func (r *runner) delete(ctx context.Context, row *Row) error {
	outcome, err := r.start(ctx, row, r.deletes, rollout.Task{Action: fleet.DeleteStrategy}, false)
	if err != nil {
		return err
	}
	if err := r.ended(ctx, row, outcome, Deleted); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Remove(row.ID)
	return r.record.Save()
}

// start starts a command about an instance and waits for its end.
func (r *runner) start(ctx context.Context, row *Row, hands *rollout.Here, task rollout.Task, canary bool) (rollout.Outcome, error) {
	m := r.member(row.in, r.dir)
	end := make(chan rollout.Outcome, 1)
	r.mu.Lock()
	if len(r.failure) > 0 || ctx.Err() != nil {
		r.mu.Unlock()
		return rollout.Outcome{}, errStopped
	}
	r.left--
	r.ends[m.Name], r.begun[row.Name], r.busy[row.Name] = end, time.Now(), true
	r.mu.Unlock()
	r.report(row, Event{Status: Started, Canary: canary})
	task.Member, task.Killed, task.Logs = m, true, r.Logs
	if err := hands.Start(ctx, task); err != nil {
		return rollout.Outcome{}, err
	}
	outcome := <-end
	r.mu.Lock()
	delete(r.busy, row.Name)
	r.mu.Unlock()
	return outcome, nil
}

// ended reports how a command about an instance ended.
func (r *runner) ended(ctx context.Context, row *Row, outcome rollout.Outcome, well Status) error {
	r.mu.Lock()
	took := time.Since(r.begun[row.Name])
	r.mu.Unlock()
	e := Event{Status: well, Seconds: took.Seconds(), Log: filepath.Join(r.Logs, r.member(row.in, r.dir).Name+".log")}
	if outcome.Verdict == schedule.Done || outcome.Verdict == schedule.Unchanged {
		r.mu.Lock()
		r.ran[row.Name] = well == Done
		r.mu.Unlock()
		r.report(row, e)
		return nil
	}
	e.Status, e.Error, e.Hint = Failed, outcome.Error, outcome.Hint
	r.mu.Lock()
	if ctx.Err() != nil && outcome.Verdict == schedule.Interrupted {
		e.Status, e.Error, e.Hint = Interrupted, "", ""
		r.halted++
	} else {
		r.failure = append(r.failure, fmt.Sprintf("%s: %s", row.Name, outcome.Error))
	}
	r.mu.Unlock()
	r.report(row, e)
	return errStopped
}

// report reports an event of an instance.
func (r *runner) report(row *Row, e Event) {
	e.Time, e.Instance, e.Command = time.Now(), row.Name, r.does
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Report(e)
}

// tell handles the progress of a command.
func (r *runner) tell(p rollout.Progress) {
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

// findRunning finds out which instances are running, if any instance changes.
func (r *runner) findRunning(ctx context.Context, p *Plan) {
	var names []string
	for _, row := range p.Rows {
		if row.Action == Change || row.Action == Keep || row.Action == Leave {
			names = append(names, row.Name)
		}
	}
	if !slices.ContainsFunc(p.Rows, func(row Row) bool { return row.Action == Change }) {
		return // no instance is stopped
	}
	_ = r.each(ctx, names, atOnce, func(ctx context.Context, row *Row) error {
		state, _ := r.status(ctx, r.all, row.in)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[row.Name] = state == rollout.Runs
		return nil
	})
}

// guard refuses to stop an instance if another one of its group was running when the run
// began, and does not run any more.
func (r *runner) guard(ctx context.Context, row *Row) error {
	if row.Action != Change {
		return nil
	}
	for name, other := range r.rows {
		r.mu.Lock()
		look := name != row.Name && other.in.Group == row.in.Group && r.ran[name] && !r.busy[name]
		r.mu.Unlock()
		if !look {
			continue
		}
		if state, problem := r.status(ctx, r.all, other.in); state != rollout.Runs {
			r.mu.Lock()
			r.failure = append(r.failure, fmt.Sprintf("%s is %s (%s), so %s was not stopped", name, state, problem, row.Name))
			r.mu.Unlock()
			return errStopped
		}
	}
	return nil
}
