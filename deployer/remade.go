package deployer

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// mayRemake reports whether the CPI may create the VM again in a step of that kind. Some
// CPIs do so when they attach or detach a disk; then the VM has lost its jobs.
func mayRemake(k plan.Kind) bool {
	switch k {
	case plan.CreateDisk, plan.AttachDisk, plan.ChangeDisk, plan.MigrateDisk, plan.CreateNamed, plan.AttachNamed, plan.OrphanNamed,
		plan.UpdateTags, plan.CleanUp:
		return true
	}
	return false
}

// restoreLost applies to the VM again what it has lost in step i of the plan. It leaves
// out what later steps apply.
func (r *run) restoreLost(ctx context.Context, i int) error {
	steps := r.plan.Steps
	if r.agent == nil || !mayRemake(steps[i].Kind) {
		return nil
	}
	now, err := r.agent.GetState(ctx, false)
	if err != nil {
		return fmt.Errorf("cannot ask the agent whether the VM still has its jobs after the step %q: %w", steps[i].Kind, err)
	}
	done := func(kinds ...plan.Kind) bool { return includes(steps[:i], kinds...) }
	coming := func(kinds ...plan.Kind) bool { return includes(steps[i+1:], kinds...) }
	if coming(plan.InitialApply) {
		return r.jobs.uploadLost(ctx, now.VM.Machine)
	}
	if !r.lost(now, done) {
		return nil
	}
	r.t.Out.Warning(fmt.Sprintf("VM %s has lost its jobs in the step %q, because the CPI has created it again: applying them again", r.vm, steps[i].Kind))
	if err := r.disks.mountAgain(ctx); err != nil {
		return err
	}
	if err := r.jobs.applyAgain(ctx, steps[i], now.VM.Machine, !coming(plan.Apply)); err != nil {
		return err
	}
	if !r.plan.Stopped && !coming(plan.StartProcesses) {
		if err := r.jobs.startAll(ctx); err != nil {
			return err
		}
	}
	if j := slices.IndexFunc(steps[:i], func(s plan.Step) bool { return s.Kind == plan.Record }); j >= 0 {
		return r.records.deployment(ctx, steps[j])
	}
	return nil
}

// lost reports whether the VM has lost its jobs. done reports whether the run has
// completed a step of one of the kinds.
func (r *run) lost(now agent.State, done func(...plan.Kind) bool) bool {
	switch hash := r.jobs.rendered.hash; {
	case done(plan.Apply) || r.jobs.again:
		return now.ConfigurationHash != hash
	case done(plan.InitialApply):
		return now.Deployment == ""
	case r.plan.NewVM() || r.plan.Blank:
		return false // No jobs were applied to it yet.
	}
	return now.Deployment == "" || now.ConfigurationHash != r.plan.Applied
}

func includes(steps []plan.Step, kinds ...plan.Kind) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool { return slices.Contains(kinds, s.Kind) })
}

// uploadLost makes later steps upload archives again that a VM of that kind has lost.
func (j *jobs) uploadLost(ctx context.Context, machine string) error {
	id := j.rendered.blob
	if d := j.packages.delivery; d != nil && d.uploads != nil {
		for _, up := range d.blobs {
			id = up.id
		}
	}
	if id == "" {
		return nil
	}
	has, err := j.agent.HasBlob(ctx, id)
	if err != nil {
		return fmt.Errorf("cannot find out whether the VM still has the uploaded packages: %w", err)
	}
	if has {
		return nil
	}
	j.rendered.blob = ""
	return j.packages.planDelivery(ctx, nil, machine)
}

// mountAgain mounts the current disk on a VM that was created again, unless it is
// mounted, and gives the named disks their names again.
func (ds *disks) mountAgain(ctx context.Context) error {
	st := ds.rec.State.Get()
	if names := associations(st); len(names) > 0 {
		if err := ds.agent.Associate(ctx, names); err != nil {
			return err
		}
	}
	d := st.Disk()
	if d == nil {
		return nil
	}
	mounted, err := ds.agent.ListDisk(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask which disks are mounted: %w", err)
	}
	if slices.Contains(mounted, d.CID) {
		return nil
	}
	return ds.rec.Out.Do(fmt.Sprintf("Mounting disk '%s'", d.CID), func(*report.Stage) error { return ds.agent.MountDisk(ctx, d.CID) })
}

// applyAgain sends its name and its packages to a VM of that kind, which has lost them,
// and also its jobs if all is true.
func (j *jobs) applyAgain(ctx context.Context, step plan.Step, machine string, all bool) error {
	if err := j.initialApply(ctx); err != nil {
		return err
	}
	if j.rendered.archive == "" {
		if err := j.render(ctx); err != nil {
			return err
		}
	}
	j.rendered.blob = ""
	j.packages.awaitKept()
	if err := j.packages.planDelivery(ctx, nil, machine); err != nil {
		return err
	}
	if err := j.compile(ctx, step); err != nil || !all {
		return err
	}
	j.again = true
	return j.update(ctx)
}
