package deployer

import (
	"context"
	"errors"
	"fmt"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// stopJobs stops the jobs on the running VM, with the scripts of the job
// lifecycle in order. If its agent is silent, only the disk is detached, by the
// CPI.
func (r *run) stopJobs(ctx context.Context, s plan.Step) error {
	cid := r.state.Get().CurrentVMCID
	if cid == "" || !r.facts.HasVM {
		return nil
	}
	if !r.facts.Answers {
		r.root.Warning(fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: %s", cid, r.facts.WhyLost()))
		return r.detachDisk(ctx, cid)
	}
	var update *agent.Spec
	if s.Next.Update {
		update = r.comingSpec()
	}
	return r.stopVM(ctx, r.running, *s.Next, update)
}

// comingSpec returns the spec that will be applied, for drain scripts.
func (r *run) comingSpec() *agent.Spec {
	if r.previous.VM != "" {
		return &r.previous.Spec
	}
	next := r.spec(false, r.rendered.blob)
	next.Packages = r.comingPackages()
	return &next
}

// stopVM stops the jobs of one VM: pre-stop, drain, stop, post-stop. update is
// the spec that will be applied, for drain scripts; nil: none.
func (r *run) stopVM(ctx context.Context, vm *agent.Client, next plan.Next, update *agent.Spec) error {
	instance := r.about.Group + "/0"
	env := map[string]string{"BOSH_VM_NEXT_STATE": next.VM, "BOSH_INSTANCE_NEXT_STATE": next.Instance, "BOSH_DEPLOYMENT_NEXT_STATE": next.Deployment}
	if !r.opts.SkipDrain {
		err := r.do(fmt.Sprintf("Running the pre-stop scripts '%s'", instance), func(*report.Stage) error {
			return r.runScripts(ctx, vm, "pre-stop", env)
		})
		if err != nil {
			return err
		}
		err = r.do(fmt.Sprintf("Draining jobs on instance '%s'", instance), func(*report.Stage) error {
			if update != nil {
				return vm.Drain(ctx, "update", update)
			}
			return vm.Drain(ctx, "shutdown", nil)
		})
		if err != nil {
			return fmt.Errorf("%w; --skip-drain stops without pre-stop and drain", err)
		}
	}
	err := r.do(fmt.Sprintf("Stopping jobs on instance '%s'", instance), func(s *report.Stage) error { return stopProcesses(ctx, vm, s) })
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Running the post-stop scripts '%s'", instance), func(*report.Stage) error {
		return r.runScripts(ctx, vm, "post-stop", env)
	})
	if err != nil || !next.Unmount() {
		return err
	}
	disks, err := vm.ListDisk(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask which disks are mounted: %w", err)
	}
	for _, d := range disks {
		if err := r.do(fmt.Sprintf("Unmounting disk '%s'", d), func(*report.Stage) error { return vm.UnmountDisk(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// stopProcesses stops the jobs and waits. Processes that do not stop are a
// warning: the VM can still be replaced or repaired.
func stopProcesses(ctx context.Context, a *agent.Client, s *report.Stage) error {
	err := a.Stop(ctx)
	var notStopped *agent.StopError
	if !errors.As(err, &notStopped) {
		return err
	}
	s.Warning(fmt.Sprintf("some processes did not stop: %v; continuing without waiting", err))
	return a.StopAsync(ctx)
}

// script turns the error of an agent that is too old to run scripts into a
// skip.
func script(err error) error {
	if agent.UnknownMessage(err) {
		return report.Skip("not supported by the agent")
	}
	return err
}

// detachDisk detaches the persistent disk from a VM.
func (r *run) detachDisk(ctx context.Context, vm string) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil {
		return nil
	}
	return r.do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(*report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		err = c.DetachDisk(ctx, vm, d.CID)
		if cpi.NotFound(err) || cpi.NotImplemented(err) {
			return report.Skip("not attached")
		}
		return err
	})
}

// stopOld stops the jobs on the VM that the current one replaces, and detaches
// the disk from it. If its agent is silent, only the CPI detaches the disk.
func (r *run) stopOld(ctx context.Context, s plan.Step) error {
	old := r.state.Get().Own.Swap
	if old == nil || old.CID == "" {
		return nil
	}
	client := r.running
	if !r.plan.Swap {
		client = r.swapped // recorded by an earlier run
	}
	if client == nil {
		r.root.Warning(fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: its agent does not answer", old.CID))
	} else if err := r.stopVM(ctx, client, *s.Next, nil); err != nil {
		return err
	}
	return r.detachDisk(ctx, old.CID)
}
