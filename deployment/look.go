package deployment

import (
	"context"
	"errors"
	"fmt"

	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/guard"
	"bootstrap/state/file"
)

// about returns the options of a run about one instance in this process, which reports
// nothing.
func (o *Options) about(all *record.Record, in *record.Instance) (deployer.Options, error) {
	one := o.Base
	one.Instance = in.Group + "/" + in.ID
	err := one.Select(all, in)
	one.SkipPostDeploy = true // it runs at the end, everywhere
	one.Report, one.Confirm, one.Continued = func(report.Event) {}, nil, nil
	return one, err
}

// planned is the plan of an instance, or why it has none.
type planned struct {
	file deployer.PlanFile
	err  error
}

// plan plans an instance.
func (o *Options) plan(ctx context.Context, all *record.Record, in *record.Instance) planned {
	one, err := o.about(all, in)
	if err != nil {
		return planned{err: err}
	}
	made, err := deployer.MakePlan(ctx, one)
	return planned{file: made, err: err}
}

// status looks at the VM of an instance. problem is the first thing that is wrong.
func (o *Options) status(ctx context.Context, all *record.Record, in *record.Instance) (state rollout.Condition, problem string) {
	one, err := o.about(all, in)
	if err != nil {
		return rollout.Unknown, err.Error()
	}
	c, err := observe.Status(ctx, one.Config, one.Options)
	if _, missing := errors.AsType[*file.MissingError](err); missing {
		return rollout.NoVM, ""
	}
	if err != nil {
		return rollout.Unknown, err.Error()
	}
	if len(c.Problems) > 0 {
		problem = c.Problems[0]
	}
	switch {
	case c.Detached:
		return rollout.Stopped, ""
	case c.VM == nil:
		return rollout.NoVM, ""
	case c.Agent != nil && !c.Agent.Answers:
		return rollout.Unreachable, problem
	case c.Stopped:
		return rollout.Stopped, ""
	case c.Well:
		return rollout.Runs, ""
	}
	return rollout.NotWell, problem
}

// findUnhealthy finds out which instances run and fail their health checks, if any instance
// changes.
func (p *Plan) findUnhealthy(ctx context.Context, o Options, all *record.Record) error {
	if p.Count(Change) == 0 {
		return nil
	}
	return sideBySide(ctx, len(p.Rows), func(i int) {
		row := &p.Rows[i]
		if row.NotRunning == "" && (row.Action == Change || row.Action == Keep) && p.plans[row.ID].Checked {
			row.NotRunning = o.unhealthy(ctx, all, row.in)
		}
	})
}

// unhealthy returns which health check of an instance fails; empty: none, or it is not known.
func (o *Options) unhealthy(ctx context.Context, all *record.Record, in *record.Instance) string {
	one, err := o.about(all, in)
	if err != nil {
		return ""
	}
	c, err := observe.Status(ctx, one.Config, one.Options)
	if err != nil {
		return ""
	}
	for _, check := range c.Health {
		if !check.Well {
			return fmt.Sprintf("the health check %s fails: %s", check.Check, check.Error)
		}
	}
	return ""
}

// lookedAtOnce is how many instances are looked at at the same time: each may wait for a
// silent agent.
const lookedAtOnce = 32

// sideBySide calls do for each number below n, several at the same time. It calls do for
// no other one after the end of ctx, which is an error.
func sideBySide(ctx context.Context, n int, do func(i int)) error {
	err := guard.Each(ctx, lookedAtOnce, n, func(i int) {
		if ctx.Err() == nil {
			do(i)
		}
	})
	return errors.Join(err, ctx.Err())
}
