package deployment

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"bootstrap/deployer"
	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
)

// Lifecycle is a command about the jobs of instances that exist.
type Lifecycle string

// The commands about jobs.
const (
	Stop    Lifecycle = "stop"
	Start   Lifecycle = "start"
	Restart Lifecycle = "restart"
)

// RunLifecycle runs a command about jobs for instances of a record: stop in the reverse order
// of the groups, start in their order, in both all instances of a group at the same time; and
// restart as a deploy changes them, by the rules of the last deploy. selected are the names
// of the instances; empty: all. If the last command was the same and did not end well, it
// is continued. do runs the command about one instance. The error is an *EndedError if an
// instance fails.
func RunLifecycle(ctx context.Context, o Options, does Lifecycle, do func(context.Context, deployer.Options) error, all *record.Record, selected string, list []*record.Instance) error {
	if err := os.MkdirAll(o.Logs, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the logs: %w", err)
	}
	o.keepFound(ctx, all.Dir())
	chosen := list
	list, err := o.begin(ctx, does, all, selected, chosen)
	if err != nil {
		return err
	}
	ran := map[string]bool{}
	if does == Restart {
		ran = o.findRunning(ctx, all, lifecycleRows(all, list))
	}
	p, err := lifecyclePlan(&o, does, all, list, ran)
	if err != nil {
		return err
	}
	r := newRunner(o, all, p, all.Dir())
	r.does, r.ran = does, ran
	r.foundRunning(chosen, list)
	r.change = func(ctx context.Context, row *Row, canary bool) error {
		if does == Restart {
			if err := r.guard(ctx, row); err != nil {
				return err
			}
		}
		if err := r.command(ctx, row, Event{Status: Started, Canary: canary}, Done, do); err != nil {
			return err
		}
		return r.done(row)
	}
	for _, stage := range p.Stages {
		if err == nil {
			err = r.stage(ctx, stage)
		}
	}
	if err == nil {
		err = r.askAgain(ctx, nil)
	}
	if len(r.failure) > 0 || ctx.Err() != nil && (err != nil || r.left > 0) {
		return &EndedError{Deployment: all.Name, Does: does, Failures: r.failure, Continued: len(r.failed) > 0, Left: r.left, Interrupted: r.halted, Signal: ctx.Err() != nil}
	}
	if err != nil {
		return err
	}
	all.Run = nil
	if err := all.Save(); err != nil {
		return err
	}
	if err := r.syncNames(ctx, false); err != nil { // start may have created VMs
		return err
	}
	return r.warnUnnamed()
}

// lifecycleRows returns the rows of all instances for a command about jobs of some.
func lifecycleRows(all *record.Record, list []*record.Instance) []Row {
	var rows []Row
	for _, in := range all.Instances {
		row := rowOf(in)
		row.leave()
		if slices.Contains(list, in) {
			row.Action = Change
		}
		rows = append(rows, row)
	}
	return rows
}

// lifecyclePlan returns the plan of a command about jobs. ran are the instances that run, by
// name; only restart needs them.
func lifecyclePlan(o *Options, does Lifecycle, all *record.Record, list []*record.Instance, ran map[string]bool) (*Plan, error) {
	p := &Plan{Deployment: all.Name, Rows: lifecycleRows(all, list), rules: map[string]manifest.Rules{}}
	var groups []order.Group
	for _, g := range all.Groups {
		p.rules[g.Name] = manifest.Rules{MinHealthy: g.MinHealthy, OnFailure: g.OnFailure}
		groups = append(groups, order.Group{Name: g.Name, Canaries: cmp.Or(o.Base.Canaries, g.Canaries), MaxInFlight: cmp.Or(o.Base.MaxInFlight, g.MaxInFlight), Serial: g.Serial})
	}
	for _, row := range p.Rows {
		in := row.in
		at := slices.IndexFunc(groups, func(g order.Group) bool { return g.Name == in.Group })
		if at < 0 { // its group is not in the manifest any more
			at, groups = len(groups), append(groups, order.Group{Name: in.Group, Canaries: cmp.Or(o.Base.Canaries, "1"), MaxInFlight: cmp.Or(o.Base.MaxInFlight, "1"), Serial: true})
		}
		groups[at].Instances = append(groups[at].Instances, order.Instance{
			ID: row.Name, Index: in.Index, Zone: in.Zone, Bootstrap: in.Bootstrap, Ignored: in.Ignored, Changes: row.Action == Change,
			Down: does == Restart && !ran[row.Name],
		})
	}
	var err error
	p.Stages, err = order.Stages(groups, false)
	if does != Restart {
		for _, stage := range p.Stages {
			for i := range stage {
				stage[i].Lots = oneLot(stage[i].Lots)
			}
		}
	}
	if does == Stop {
		slices.Reverse(p.Stages)
	}
	return p, err
}

// oneLot returns one lot with all instances of the given ones.
func oneLot(lots []order.Lot) []order.Lot {
	var all order.Lot
	for _, lot := range lots {
		all.Rest = append(append(all.Rest, lot.Canaries...), lot.Rest...)
	}
	all.Width = len(all.Rest)
	if all.Width == 0 {
		return nil
	}
	return []order.Lot{all}
}
