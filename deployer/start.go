package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/deployer/access"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// startScripts runs the scripts of jobs that run when jobs start.
func (j *jobs) startScripts(ctx context.Context, s plan.Step) error {
	name := string(s.Kind)
	if s.Kind == plan.PreStart {
		j.begun = access.Start{At: time.Now(), First: s.With.New}
	}
	return j.rec.Out.Do(fmt.Sprintf("Running the %s scripts '%s'", name, j.rec.About.Instance()), func(*report.Stage) error {
		return j.runScripts(ctx, j.agent, name, nil)
	})
}

// start starts the processes of the jobs.
func (j *jobs) start(ctx context.Context, s plan.Step) error {
	j.seen = nil
	if j.begun.At.IsZero() {
		j.begun = access.Start{At: time.Now(), First: s.With.New}
	}
	return j.rec.Out.Do(fmt.Sprintf("Starting instance '%s'", j.rec.About.Instance()), func(*report.Stage) error { return j.agent.Start(ctx) })
}

// awaitRunning waits until the jobs run.
func (j *jobs) awaitRunning(ctx context.Context, _ plan.Step) error {
	return j.awaitFor(ctx, j.rec.About.WatchTime.Min)
}

// awaitFor waits until the jobs run, for at least a time. It records the processes that have
// ended if they do not run.
func (j *jobs) awaitFor(ctx context.Context, least time.Duration) error {
	return j.rec.Out.Do(fmt.Sprintf("Waiting for instance '%s' to be running", j.rec.About.Instance()), func(s *report.Stage) error {
		err := j.waitForRunning(ctx, s, least)
		_, failed := errors.AsType[*NotRunningError](err)
		if err != nil && !failed {
			return err
		}
		return errors.Join(err, j.recordUnproven(failed))
	})
}

// startAll starts jobs with unknown scripts: it runs all kinds of scripts, and starts the
// processes.
func (j *jobs) startAll(ctx context.Context) error {
	for _, step := range []struct {
		kind plan.Kind
		do   doer
	}{
		{plan.PreStart, j.startScripts},
		{plan.StartProcesses, j.start},
		{plan.AwaitRunning, j.awaitRunning},
		{plan.PostStart, j.startScripts},
		{plan.CheckHealth, j.checkHealth},
		{plan.PostDeploy, j.startScripts},
	} {
		if err := step.do(ctx, plan.Step{Kind: step.kind}); err != nil {
			return err
		}
	}
	return nil
}
