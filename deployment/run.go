package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
	"bootstrap/state/file"

	"golang.org/x/sync/singleflight"
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
	Creating Status = "creating" // its VM is created; its turn comes later
	Created  Status = "created"
	Started  Status = "started"
	Stepped  Status = "step"
	Done     Status = "done"
	Deleted  Status = "deleted"
	Failed   Status = "failed"
	// Interrupted is an instance that a signal ended at a safe step.
	Interrupted Status = "interrupted"
)

// errStopped ends the other parts of a run after a failure.
var errStopped = errors.New("the run ends")

// errGivenUp ends the change of one instance after its failure, and the run continues.
var errGivenUp = errors.New("the instance has failed")

// runner carries out a plan.
type runner struct {
	Options
	dir    string // folder of the record
	record *record.Record
	all    *record.Record  // as it was when the run began
	rows   map[string]*Row // by the name of the instance
	rules  map[string]manifest.Rules
	links  *deployer.Connections // of the plan; nil: it needs none

	does Lifecycle // empty: a deploy or delete

	// change changes one instance of a lot.
	change func(ctx context.Context, row *Row, canary bool) error

	naming naming

	canaries map[string]bool // by the name of the instance

	claims map[string]*sync.Mutex // by group: held while an instance is chosen to be stopped

	looks singleflight.Group // the looks at instances that are in progress, by name

	mu    sync.Mutex
	seen  map[string]seen // the last looks, by name, at instances that have not changed since
	begun map[string]time.Time
	ran   map[string]bool // instances that were running when the run began
	busy  map[string]bool // instances that change
	// started has when the jobs of instances were seen to run after this run has started them.
	started map[string]deployer.Ran
	// someEnded is closed when the next instance has ended.
	someEnded chan struct{}
	left      int // instances that are not started yet
	halted    int // instances that a signal ended
	failure   []string
	over      bool            // a failure ends the run
	failed    map[string]bool // instances that have failed, after which the run continues
}

// newRunner returns a runner of a plan.
func newRunner(o Options, all *record.Record, p *Plan, dir string) *runner {
	r := &runner{
		naming:  naming{silent: map[string]string{}},
		Options: o, dir: dir, record: all, all: all.Copy(), rules: p.rules, links: p.connections, rows: map[string]*Row{},
		begun: map[string]time.Time{}, seen: map[string]seen{}, ran: map[string]bool{}, busy: map[string]bool{}, started: map[string]deployer.Ran{},
		someEnded: make(chan struct{}), claims: map[string]*sync.Mutex{}, canaries: p.canaries(), failed: map[string]bool{},
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		r.claims[row.in.Group] = &sync.Mutex{}
		r.rows[row.Name] = row
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
	for _, name := range p.PostDeploy {
		i := slices.IndexFunc(p.Rows, func(row Row) bool { return row.Name == name })
		p.Rows[i].in.PostDeploy = true
	}
	o.keepFound(ctx, dir)
	if err := draft.Record.Save(); err != nil {
		return err
	}
	// The record is saved first: by it, the next run finds the addresses that a killed run
	// has reserved.
	if err := draft.reserve(ctx, o.Base); err != nil {
		return err
	}
	o.Base.Deployment = draft.deployment
	if err := p.generate(ctx, o, draft); err != nil {
		return err
	}
	if err := p.checkGenerated(ctx, o, draft); err != nil {
		return err
	}
	if p.Compile != nil {
		if _, err := deployer.CompileSeveral(ctx, o.Base, draft.deployment, draft.Record, p.Compile.groups, true); err != nil {
			o.endCompile(ctx)
			return err
		}
	}
	r := newRunner(o, draft.Record, p, dir)
	r.naming.expectSilent(p)
	r.change = r.deploy
	err := r.run(ctx, p)
	if p.Compile != nil {
		o.endCompile(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.syncNames(ctx, false), r.save(func() {})) // with the states of those that succeeded
	}
	err = errors.Join(err, r.warnUnnamed())
	switch {
	case ctx.Err() != nil && (err != nil || r.left > 0), len(r.failure) > 0:
		return &EndedError{Deployment: p.Deployment, Failures: r.failure, Continued: len(r.failed) > 0, Left: r.left, Interrupted: r.halted, Signal: ctx.Err() != nil, Previous: r.goesOn(p)}
	case err != nil:
		return err
	}
	return r.recordEnd(draft, p)
}

// goesOn reports whether the plan is that of a deploy after one that has succeeded, and does
// not go back to that.
func (r *runner) goesOn(p *Plan) bool {
	return r.record.Deployed != nil && r.record.Run == nil && p.Count(Create)+p.Count(Change) > 0
}

// recordEnd records that the run has succeeded, or removes a record that nothing needs any
// more.
func (r *runner) recordEnd(draft *Draft, p *Plan) error {
	r.record.Run = nil
	if !r.record.Needed() || draft.Alone && !p.partial() && len(r.record.Former) == 0 && r.record.Names == nil {
		return r.record.Forget()
	}
	if !p.partial() {
		now := time.Now().UTC().Truncate(time.Second)
		r.record.Deployed = &now
	}
	return r.record.Save()
}

// endCompile removes the states and stemcells of compilation VMs that no instance uses.
func (o *Options) endCompile(ctx context.Context) {
	if err := deployer.EndCompile(ctx, o.Base); err != nil {
		message := fmt.Sprintf("cannot remove the states of compilation VMs: %v; the next deploy or delete removes them", err)
		o.Base.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: message})
	}
}

// keepFound keeps the present record and states as a version, if commands about single
// instances have changed them since the last run.
func (o *Options) keepFound(ctx context.Context, dir string) {
	err := KeepVersion(ctx, dir, file.Options{Home: o.Base.Home, Team: o.Base.Team}, nil)
	if err != nil {
		o.Base.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
}

// generate generates the values that instances of the plan lack of variables with scope:
// instance.
func (p *Plan) generate(ctx context.Context, o Options, draft *Draft) error {
	if draft.deployment == nil { // all instances are deleted
		return nil
	}
	var list []*record.Instance
	for _, row := range p.Rows {
		if row.Action == Create || row.Action == Change || row.Action == Keep {
			list = append(list, row.in)
		}
	}
	return deployer.GenerateFor(ctx, o.Base, draft.deployment, list)
}

// checkGenerated plans again the instances of which templates failed, maybe only because
// values were not generated: these exist now.
func (p *Plan) checkGenerated(ctx context.Context, o Options, draft *Draft) error {
	again := &Plan{Deployment: p.Deployment}
	for _, row := range p.Rows {
		if p.plans[row.ID].Unchecked {
			again.Rows = append(again.Rows, rowOf(row.in))
		}
	}
	if len(again.Rows) == 0 {
		return nil
	}
	o.Base.Connections = p.connections.Again()
	return again.planEach(ctx, o, draft)
}

// run does the parts of a plan, one after another.
func (r *runner) run(ctx context.Context, p *Plan) error {
	r.ran = r.findRunning(ctx, r.all, p.Rows)
	if err := r.each(ctx, p.Gone, atOnce, r.delete); err != nil {
		return err
	}
	if err := r.each(ctx, p.Create, atOnce, r.create); err != nil {
		return err
	}
	if len(p.Create) > 0 || p.Count(Create) == 0 {
		if err := r.syncNames(ctx, false); err != nil {
			return err
		}
	}
	for _, stage := range p.Stages {
		if err := r.stage(ctx, stage); err != nil {
			return err
		}
	}
	if err := r.syncNames(ctx, false); err != nil {
		return err
	}
	if len(p.PostDeploy) > 0 && len(r.failed) == 0 {
		if err := r.askAgain(ctx, nil); err != nil {
			return err
		}
		if err := r.postDeploy(ctx, p.PostDeploy); err != nil {
			return err
		}
	}
	if err := r.askAgain(ctx, nil); err != nil {
		return err
	}
	if len(r.failed) > 0 {
		return errStopped
	}
	return nil
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
	remove := func() error {
		if err := r.each(ctx, turn.Delete.IDs, max(turn.Delete.Width, 1), r.delete); err != nil || len(turn.Delete.IDs) == 0 {
			return err
		}
		return r.syncNames(ctx, true)
	}
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
		if len(lot.Canaries) > 0 && len(lot.Rest) > 0 {
			if err := r.askAgain(ctx, lot.Canaries); err != nil {
				return err
			}
		}
		rest := func(ctx context.Context, row *Row) error {
			if r.hasFailed(row.Name) { // its VM could not be created
				return nil
			}
			err := r.change(ctx, row, false)
			if errors.Is(err, errGivenUp) {
				return nil
			}
			return err
		}
		if err := r.each(ctx, lot.Rest, lot.Width, rest); err != nil {
			return err
		}
	}
	if turn.Delete.Last && !slices.ContainsFunc(turn.Names(), r.hasFailed) {
		return remove()
	}
	return nil
}

// mostAtOnce is how many instances are changed at the same time, whatever max_in_flight says:
// each needs about eight open files, and a process may have only 1,024.
const mostAtOnce = 100

// each calls do for the named instances, at most width at the same time. After a failure
// it starts no other one.
func (r *runner) each(ctx context.Context, names []string, width int, do func(context.Context, *Row) error) error {
	errs := make([]error, len(names))
	var failed atomic.Bool
	err := guard.Each(ctx, min(width, mostAtOnce), len(names), func(i int) {
		if failed.Load() {
			return
		}
		if errs[i] = do(ctx, r.rows[names[i]]); errs[i] != nil {
			failed.Store(true)
		}
	})
	return errors.Join(append(errs, err)...)
}

// create creates the VM of an instance, and leaves its jobs to its turn.
func (r *runner) create(ctx context.Context, row *Row) error {
	err := r.command(ctx, row, Event{Status: Creating}, Created, func(ctx context.Context, one deployer.Options) error {
		one.CreateOnly = true
		return deployer.Deploy(ctx, one)
	})
	if errors.Is(err, errGivenUp) {
		return nil
	}
	if err != nil {
		return err
	}
	r.naming.answers(row.ID)
	return nil
}

// deploy deploys one instance.
func (r *runner) deploy(ctx context.Context, row *Row, canary bool) error {
	if err := r.guard(ctx, row); err != nil {
		return err
	}
	err := r.command(ctx, row, Event{Status: Started, Canary: canary}, Done, func(ctx context.Context, one deployer.Options) error {
		if canary && r.Base.WatchTime == nil {
			one.WatchTime = r.rules[row.in.Group].CanaryWatch
		}
		one.SkipPostDeploy = true // it runs at the end, everywhere
		return deployer.Deploy(ctx, one)
	})
	if err != nil {
		return err
	}
	r.naming.answers(row.ID)
	return r.syncNames(ctx, true)
}

// delete deletes one instance, and removes it from the record. If its state has orphaned
// disks, the record keeps it as a former one.
func (r *runner) delete(ctx context.Context, row *Row) error {
	err := r.command(ctx, row, Event{Status: Started}, Deleted, func(ctx context.Context, one deployer.Options) error {
		one.KeepDisk, one.SkipIfMissing = one.KeepDisk || r.KeepDisks, true
		return deployer.Delete(ctx, one)
	})
	if err != nil {
		return err
	}
	if err := r.releaseUnused(ctx, row); err != nil {
		return err
	}
	kept, err := file.Exists(r.record.StatePath(row.in))
	if err != nil {
		return err
	}
	if !kept {
		if err := file.RemoveLock(r.record.StatePath(row.in)); err != nil {
			return err
		}
	}
	// The data on an orphaned disk may need the values.
	if d := r.Base.Deployment; d != nil && !kept {
		if err := d.Forget(ctx, instance.MemberOf(row.in)); err != nil {
			return err
		}
	}
	err = r.save(func() {
		if kept {
			r.record.Retire(row.ID)
		} else {
			r.record.Remove(row.ID)
		}
	})
	if err == nil && !kept {
		err = r.Base.ForgetDeleted(ctx, row.in)
	}
	return err
}

// releaseUnused releases the addresses of a new instance for which no command was started.
func (r *runner) releaseUnused(ctx context.Context, row *Row) error {
	if len(row.in.Addresses) == 0 {
		return nil
	}
	return deployer.ReleaseUnused(ctx, r.Base, row.ID)
}
