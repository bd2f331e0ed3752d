package deployer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// Inspect finds the problems of an instance. It changes nothing, but settles what a killed
// run has begun.
func Inspect(ctx context.Context, opts Options) (list []report.Problem, err error) {
	opts.Inputs.Generate, opts.Inputs.Lenient = document.Refuse, true
	r := newRun(opts)
	err = r.execute(ctx, r.problemPhases(func(ctx context.Context) (err error) {
		list, err = r.problems(ctx)
		return err
	}))
	return list, err
}

// problems returns the problems of the instance.
func (r *run) problems(ctx context.Context) ([]report.Problem, error) {
	st, f, name := r.t.State.Get(), r.look.Facts, r.t.About.Instance()
	recreates := []report.Resolution{report.RecreateWithoutWait, report.RecreateVM}
	var list []report.Problem
	switch cid := st.CurrentVMCID; {
	case st.Detached(), cid == "" && st.Idle():
		return nil, nil
	case cid == "":
		list = append(list, report.Problem{Type: report.MissingVM, Description: fmt.Sprintf("VM for '%s' missing.", name), Auto: report.RecreateWithoutWait, Resolutions: slices.Concat([]report.Resolution{report.Ignore}, recreates)})
	case !f.HasVM:
		list = append(list, report.Problem{
			Type: report.MissingVM, CID: cid, Description: fmt.Sprintf("VM for '%s' with cloud ID '%s' missing.", name, cid), Auto: report.RecreateWithoutWait,
			Resolutions: slices.Concat([]report.Resolution{report.Ignore}, recreates, []report.Resolution{report.DeleteVMReference}),
		})
	case !f.Answers:
		list = append(list, report.Problem{
			Type: report.UnresponsiveAgent, CID: cid, Description: fmt.Sprintf("VM for '%s' with cloud ID '%s' is not responding.", name, cid), Auto: report.Ignore,
			Resolutions: slices.Concat([]report.Resolution{report.Ignore, report.RebootVM}, recreates, []report.Resolution{report.DeleteVM, report.DeleteVMReference}),
		})
	}
	if f.Answers {
		if p := r.jobsProblem(st); p != nil {
			list = append(list, *p)
		}
	}
	for _, d := range st.UsedDisks() {
		p, err := r.diskProblem(ctx, st, d)
		if err != nil {
			return nil, err
		}
		if p != nil {
			list = append(list, *p)
		}
	}
	for i := range list {
		list[i].Instance = name
	}
	return list, nil
}

// jobsProblem returns what is wrong with the jobs of a VM whose agent answers; nil: they run,
// are starting, or were stopped on purpose.
func (r *run) jobsProblem(st state.State) *report.Problem {
	now, expected := r.look.Facts.Now, r.jobs.processes()
	failing := slices.ContainsFunc(now.Processes, func(p agent.Process) bool { return p.State == "failing" })
	// An agent reports the jobs as starting if one process starts, whatever the others do.
	if st.Own.Stopped || now.JobState == "starting" && !failing || plan.Runs(now, expected) {
		return nil
	}
	what := "the agent reports them as " + now.JobState
	if list := plan.NotRunning(now, expected); len(list) > 0 {
		var states []string
		for _, p := range list {
			states = append(states, p.Subject+" is "+p.To)
		}
		what = strings.Join(states, ", ")
	} else if plan.Bare(now, expected) {
		what = "the VM has no processes"
	}
	return &report.Problem{
		Type: report.FailingJobs, CID: st.CurrentVMCID, Auto: report.Ignore,
		Description: fmt.Sprintf("Jobs of '%s' on VM '%s' are not running: %s", r.t.About.Instance(), st.CurrentVMCID, what),
		Resolutions: []report.Resolution{report.Ignore, report.RestartJobs, report.RecreateWithoutWait, report.RecreateVM},
	}
}

// diskProblem returns what is wrong with a persistent disk; nil: nothing.
func (r *run) diskProblem(ctx context.Context, st state.State, d state.Disk) (*report.Problem, error) {
	name, f := r.t.About.Instance(), r.look.Facts
	c, err := r.t.CPI.Client(ctx)
	if err != nil {
		return nil, err
	}
	there, err := c.HasDisk(ctx, d.CID)
	switch {
	case cpi.NotImplemented(err):
	case err != nil:
		return nil, err
	case !there:
		return &report.Problem{
			Type: report.MissingDisk, CID: d.CID, Description: fmt.Sprintf("Disk '%s' (%s, %dM) is missing", d.CID, name, d.Size), Auto: report.Ignore,
			Resolutions: []report.Resolution{report.Ignore, report.DeleteDiskReference},
		}, nil
	}
	as := st.NameOf(d.CID)
	if !f.Answers || slices.Contains(f.Mounted, d.CID) || as != "" && hasAttached(ctx, c, st, d.CID) {
		return nil, nil
	}
	owners := r.otherVMs(ctx, c, d.CID)
	mounted := "not mounted in any VM"
	if len(owners) > 0 {
		mounted = "mounted on: " + strings.Join(owners, ", ")
	}
	return &report.Problem{
		Type: report.MountMismatch, CID: d.CID, Auto: report.Ignore, Resolutions: []report.Resolution{report.Ignore, report.ReattachDisk},
		Description: fmt.Sprintf("Inconsistent mount information: the record shows that disk '%s' of '%s' should be mounted on %s, and it is currently %s", d.CID, name, st.CurrentVMCID, mounted),
	}, nil
}

// recordDetached records that a named disk is not attached, so that a deploy attaches it.
func (r *run) recordDetached(disk string) error {
	st := r.t.State.Get()
	d, name := plan.DiskOf(st, disk), st.NameOf(disk)
	if d == nil || name == "" {
		return nil
	}
	return r.t.State.Update(func(st *state.State) error { st.SetNamed(name, d.ID, ""); return nil })
}

// hasAttached reports whether the VM has a named disk, as far as the CPI knows: the agent
// reports only disks that are mounted.
func hasAttached(ctx context.Context, c *cpi.Client, st state.State, disk string) bool {
	attached, err := c.GetDisks(ctx, st.CurrentVMCID)
	return err != nil || slices.Contains(attached, disk)
}

// otherVMs returns the VMs of other instances of the deployment that have the disk, as far as
// the CPI knows.
func (r *run) otherVMs(ctx context.Context, c *cpi.Client, disk string) (owners []string) {
	of := r.t.From.Of
	if of == nil {
		return nil
	}
	for _, other := range of.Record.Instances {
		st, found, err := of.Record.ReadState(other, r.t.Env.Home)
		if err != nil || !found || other.ID == of.Instance.ID || st.CurrentVMCID == "" {
			continue
		}
		if disks, err := c.GetDisks(ctx, st.CurrentVMCID); err == nil && slices.Contains(disks, disk) {
			owners = append(owners, fmt.Sprintf("%s (%s)", st.CurrentVMCID, other.Name()))
		}
	}
	return owners
}

// Resolve applies a resolution to a problem. Those that create a VM or attach a disk deploy
// the instance as the manifest says. A VM whose agent answers by now is neither deleted nor
// recreated.
func Resolve(ctx context.Context, opts Options, p report.Problem, how report.Resolution) error {
	switch how {
	case report.Ignore:
		return nil
	case report.RebootVM:
		opts.Inputs.Lenient = true
		return Start(ctx, opts)
	case report.RecreateVM, report.RecreateWithoutWait, report.ReattachDisk:
		if how == report.ReattachDisk {
			if err := resolving(ctx, opts, func(_ context.Context, r *run) error { return r.recordDetached(p.CID) }); err != nil {
				return err
			}
		}
		still := isSilent
		if p.Type == report.FailingJobs {
			still = jobsFail
		}
		if opts.Recreate = p.Type == report.UnresponsiveAgent || p.Type == report.FailingJobs; opts.Recreate {
			if has, err := still(ctx, opts, p); err != nil || !has {
				return err
			}
		}
		opts.Fix, opts.NoWait, opts.Existing = true, how == report.RecreateWithoutWait, true
		return Deploy(ctx, opts)
	case report.RestartJobs:
		if fail, err := jobsFail(ctx, opts, p); err != nil || !fail {
			return err
		}
		opts.Inputs.Lenient = true
		return Restart(ctx, opts)
	case report.DeleteDiskReference:
		opts.Inputs.Lenient, opts.Disk = true, p.CID
		return ForgetDisk(ctx, opts)
	}
	return resolving(ctx, opts, func(ctx context.Context, r *run) error {
		switch {
		case !r.has(p):
			return nil
		case how == report.DeleteVM:
			return r.runList(ctx, "deleting VM", plan.DeleteVMSteps)
		}
		return r.t.State.Update(func(st *state.State) error {
			st.CurrentManifestSHA = ""
			st.Forget("delete_vm", p.CID)
			return nil
		})
	})
}

// resolving looks at the VM of the options and calls do.
func resolving(ctx context.Context, opts Options, do func(context.Context, *run) error) error {
	opts.Inputs.Generate, opts.Inputs.Lenient = document.Refuse, true
	r := newRun(opts)
	return r.execute(ctx, r.problemPhases(func(ctx context.Context) error { return do(ctx, r) }))
}

// isSilent reports whether the VM of a problem is still there and silent.
func isSilent(ctx context.Context, opts Options, p report.Problem) (silent bool, err error) {
	opts.Recreate = false
	err = resolving(ctx, opts, func(_ context.Context, r *run) error { silent = r.has(p); return nil })
	return silent, err
}

// has reports whether the instance still has the problem with its VM, and says so if not: the
// person may have taken a while to choose.
func (r *run) has(p report.Problem) bool {
	switch current := r.t.State.Get().CurrentVMCID; {
	case current != p.CID:
		r.t.Out.Info(fmt.Sprintf("VM %s is not that of %s any more: skipping the resolution", p.CID, p.Instance))
	case r.look.Facts.Answers:
		r.t.Out.Info("The agent is responding now: skipping the resolution")
	default:
		return true
	}
	return false
}

// jobsFail reports whether the jobs of a problem still fail, and reports the reason if not: the
// person may have taken a while to choose.
func jobsFail(ctx context.Context, opts Options, p report.Problem) (fail bool, err error) {
	opts.Recreate = false
	err = resolving(ctx, opts, func(_ context.Context, r *run) error {
		st := r.t.State.Get()
		fail = st.CurrentVMCID == p.CID && r.look.Facts.Answers && r.jobsProblem(st) != nil
		if !fail {
			r.t.Out.Info(fmt.Sprintf("The jobs of %s on VM %s do not fail any more: skipping the resolution", p.Instance, p.CID))
		}
		return nil
	})
	return fail, err
}
