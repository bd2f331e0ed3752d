package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer"
	"bootstrap/deployer/plan"
	"bootstrap/deployment/record"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/failure"
)

// UnreachableError says that the agents of instances do not answer, so that the
// instances cannot be planned.
type UnreachableError struct {
	Instances []string // their names
	Reason    string   // of the first one
	Going     bool     // all of them are to be deleted
	Delete    bool     // a delete deletes them
}

func (e *UnreachableError) Error() string {
	if len(e.Instances) == 1 {
		return fmt.Sprintf("%s is unreachable, so nothing was changed: %s", e.Instances[0], e.Reason)
	}
	return fmt.Sprintf("%d instances are unreachable, so nothing was changed: %s; %s: %s", len(e.Instances), strings.Join(e.Instances, ", "), e.Instances[0], e.Reason)
}

func (e *UnreachableError) Name() string { return "agent-silent" }

func (e *UnreachableError) ExitCode() failure.Code { return failure.Agent }

func (e *UnreachableError) Hint() string {
	switch {
	case e.Delete:
		return "add --fix to delete their VMs without stopping the jobs, or delete only others with --instance"
	case e.Going:
		return "add --fix to delete their VMs without stopping the jobs, or --skip-unreachable to change only the others"
	}
	return "add --fix to reboot or replace their VMs, or --skip-unreachable to change only the others"
}

// Refused returns an *UnreachableError if instances of the plan are unreachable, unless
// they are to be skipped.
func (p *Plan) Refused(skip bool) error {
	if skip {
		return nil
	}
	e := &UnreachableError{Going: true}
	for _, row := range p.Rows {
		if row.Action == Unreachable {
			why := row.in.Going
			e.Going = e.Going && why != ""
			e.Delete = e.Delete || why == record.DeploymentDeleted || why == record.Chosen
			e.Instances = append(e.Instances, row.Name)
			if e.Reason == "" {
				e.Reason = row.Why
			}
		}
	}
	if len(e.Instances) == 0 {
		return nil
	}
	return e
}

// FindSilent marks instances that are to be deleted, but whose agents do not answer, so that
// their jobs cannot be stopped.
func (p *Plan) FindSilent(ctx context.Context, o Options, all *record.Record) error {
	err := sideBySide(ctx, len(p.Rows), func(i int) {
		row := &p.Rows[i]
		if row.Action != Delete {
			return
		}
		one, err := o.about(all, row.in)
		if err == nil {
			err = deployer.CheckDelete(ctx, one)
		}
		if silent(err) {
			row.leaveSilent(err)
		}
	})
	p.Gone = slices.DeleteFunc(p.Gone, func(name string) bool {
		return slices.ContainsFunc(p.Rows, func(row Row) bool { return row.Name == name && row.Action != Delete })
	})
	return err
}

// CheckInputs refuses what commands about instances would refuse in their manifest, on their
// command lines and in the documents of a store, before the first of them begins. Without a
// store it asks for one instance of each group, because the others differ in nothing.
func (o *Options) CheckInputs(ctx context.Context, all *record.Record, list []*record.Instance) error {
	p := &Plan{}
	seen := map[string]bool{}
	for _, in := range list {
		if !seen[in.Group] || o.Base.Team != nil {
			seen[in.Group] = true
			p.Rows = append(p.Rows, Row{Name: in.Name(), Action: Keep, in: in})
		}
	}
	made := make([]planned, len(p.Rows))
	err := sideBySide(ctx, len(p.Rows), func(i int) {
		one, err := o.about(all, p.Rows[i].in)
		if err == nil {
			err = deployer.CheckInputs(ctx, one)
		}
		made[i].err = err
	})
	if err != nil {
		return err
	}
	if err := p.sameForAll(made); err != nil {
		return err
	}
	var failed []Unplanned
	for i, row := range p.Rows {
		if made[i].err != nil {
			failed = append(failed, unplanned(row.Name, made[i].err.Error(), made[i].err))
		}
	}
	if len(failed) > 0 {
		return &UnplannedError{Failed: failed}
	}
	return nil
}

// silent reports whether the error of a plan is that the agent does not answer.
func silent(err error) bool {
	_, is := errors.AsType[*plan.AgentSilentError](err)
	return is
}

// leaveSilent makes it the row of an instance whose agent does not answer.
func (r *Row) leaveSilent(err error) {
	r.Action, r.Why, r.Disk, r.NotRunning = Unreachable, err.Error(), "", plan.Reason{Cause: plan.AgentSilent}.String()
}

// leaveRunning leaves out the instances that run.
func (p *Plan) leaveRunning(ctx context.Context, o Options, draft *Draft) error {
	return sideBySide(ctx, len(p.Rows), func(i int) {
		row := &p.Rows[i]
		if row.Action != Keep {
			row.leave()
			return
		}
		if state, _ := o.status(ctx, draft.Record, row.in); state == rollout.Runs {
			row.leave()
		}
	})
}
