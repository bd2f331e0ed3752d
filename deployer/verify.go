package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/deployer/plan"
	"bootstrap/manifest/document"
)

// processes returns the names of the processes of the applied jobs, if they are known.
func (j *jobs) processes() []string {
	switch {
	case j.previous.VM != "":
		return j.previous.Processes
	case j.rendered.hash != "":
		return j.rendered.processes
	}
	return j.rec.State.Get().Own.Processes
}

// LostError says that a VM does not have the jobs of the last deploy.
type LostError struct {
	VM       string
	Bare     bool // true: it has no jobs
	Instance string
}

func (e *LostError) Error() string {
	what := "has other jobs than those that the last deploy applied"
	if e.Bare {
		what = "has no jobs, although a deploy has applied them: the VM was created again, or its disk was replaced"
	}
	return fmt.Sprintf("VM %s of instance '%s' %s; `bootstrap deploy MANIFEST` applies them again", e.VM, e.Instance, what)
}

func (e *LostError) Name() string { return "jobs-lost" }

// verify checks at the end of a run that the VM has the last applied jobs, and that they
// run unless they are stopped.
func (r *run) verify(ctx context.Context) error {
	st := r.t.State.Get()
	if r.agent == nil || st.CurrentVMCID == "" || st.CurrentManifestSHA == "" {
		return nil
	}
	now, err := r.agent.GetState(ctx, false)
	if err != nil {
		return fmt.Errorf("cannot ask the agent which jobs run at the end: %w", err)
	}
	if lost, bare := plan.Lost(st, now); lost {
		return &LostError{VM: st.CurrentVMCID, Bare: bare, Instance: r.t.About.Instance()}
	}
	if st.Own.Stopped || r.jobs.history().runOn(now, r.jobs.processes(), time.Now()) {
		return nil
	}
	return r.jobs.awaitRunning(ctx, plan.Step{})
}

// verifies reports whether the run is checked at its end: it neither stops the applied
// jobs nor deletes anything.
func (r *run) verifies() bool {
	return len(r.plan.Steps) > 0 && !r.plan.NoWait && !includes(r.plan.Steps, plan.RecordStopped, plan.RecordDetached, plan.Uninstall, plan.UninstallRest)
}

// Ran is when another run has seen that the jobs of an instance run.
type Ran struct {
	Begun time.Time // before it started them
	At    time.Time
}

// StillRuns asks the agent of an instance once more whether its jobs run. If a process does not
// run, or has ended since another process has seen that they do, it calls waits and waits as
// after a start; then the error may be a *NotRunningError, and the state gets the processes that
// have ended. Otherwise it locks and changes nothing.
func StillRuns(ctx context.Context, opts Options, ran Ran, waits func()) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	err := r.execute(ctx, r.againPhases(func(ctx context.Context) error {
		st := r.t.State.Get()
		if r.vm = st.CurrentVMCID; st.Own.Stopped {
			return nil
		}
		now, err := r.agent.GetState(ctx, false)
		if err != nil {
			return fmt.Errorf("cannot ask the agent once more whether the jobs run: %w", err)
		}
		seen, at := r.jobs.history(), time.Now()
		r.jobs.begun.At = ran.Begun
		seen.ran(now, ran, at)
		if seen.runOn(now, r.jobs.processes(), at) {
			return nil
		}
		waits()
		return r.jobs.waitForRunning(ctx, r.t.Out.Root, r.jobs.rec.About.WatchTime.Min)
	}))
	if _, failed := errors.AsType[*NotRunningError](err); !failed {
		return err
	}
	locked := newRun(opts)
	unrecorded := locked.execute(ctx, locked.notePhases(func(context.Context) error {
		locked.jobs.seen = r.jobs.seen
		return locked.jobs.recordUnproven(true)
	}))
	if unrecorded != nil {
		r.t.Out.Warning(fmt.Sprintf("cannot record that the jobs do not run: %v", unrecorded))
	}
	return err
}
