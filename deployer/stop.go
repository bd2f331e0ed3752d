package deployer

import (
	"context"
	"errors"
	"fmt"

	"bootstrap/agent"
	"bootstrap/cpi"
)

// leaver is a VM whose jobs are stopped, and what becomes of it afterwards.
type leaver struct {
	cid   string
	agent *agent.Client
	// next is keep or delete: what comes after the stop for the VM, the instance
	// and the deployment (the Director's names, see the docs of pre-stop).
	vm, instance, deployment string
	// update is the spec to come, for drain scripts; nil: none does.
	update *agent.Spec
	// unmount tells that the persistent disks leave the VM.
	unmount bool
}

// stopRunning stops the jobs on the VM that runs, in the order of the job
// lifecycle. Whose agent does not answer is left to the CPI.
func (r *run) stopRunning(ctx context.Context) error {
	st := r.state.Get()
	cid := st.CurrentVMCID
	if cid == "" || !r.facts.hasVM {
		return nil
	}
	if !r.facts.agentTold {
		r.root.warning(fmt.Sprintf("the jobs on VM %s are not stopped and its disk is not unmounted: %s", cid, r.facts.whyLost()))
		return r.detachDisk(ctx, cid)
	}
	l := leaver{cid: cid, agent: r.running, vm: "keep", instance: "keep", deployment: "keep"}
	switch {
	case r.deleting:
		l.vm, l.instance, l.deployment, l.unmount = "delete", "delete", "delete", true
	case r.plan.on(aVM) == replace:
		l.vm, l.unmount = "delete", true
	case r.previous.VM != "":
		l.update = &r.previous.Spec
	case r.plan.on(theJobs) == update:
		next := r.spec(false, r.rendered.blob)
		next.Packages = r.comingPackages()
		l.update = &next
	}
	return r.stopVM(ctx, l)
}

// stopVM stops the jobs of one VM: pre-stop, drain, stop, post-stop.
func (r *run) stopVM(ctx context.Context, l leaver) error {
	instance := r.manifest.Group.Name + "/0"
	env := map[string]string{"BOSH_VM_NEXT_STATE": l.vm, "BOSH_INSTANCE_NEXT_STATE": l.instance, "BOSH_DEPLOYMENT_NEXT_STATE": l.deployment}
	if !r.opts.SkipDrain {
		err := r.do(fmt.Sprintf("Running the pre-stop scripts '%s'", instance), func(*stage) error {
			return r.runScripts(ctx, l.agent, "pre-stop", env)
		})
		if err != nil {
			return err
		}
		err = r.do(fmt.Sprintf("Draining jobs on instance '%s'", instance), func(*stage) error {
			if l.update != nil {
				return l.agent.Drain(ctx, "update", l.update)
			}
			return l.agent.Drain(ctx, "shutdown", nil)
		})
		if err != nil {
			return fmt.Errorf("%w; --skip-drain stops without pre-stop and drain", err)
		}
	}
	err := r.do(fmt.Sprintf("Stopping jobs on instance '%s'", instance), func(s *stage) error { return stopJobs(ctx, l.agent, s) })
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Running the post-stop scripts '%s'", instance), func(*stage) error {
		return r.runScripts(ctx, l.agent, "post-stop", env)
	})
	if err != nil || !l.unmount {
		return err
	}
	disks, err := l.agent.ListDisk(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask which disks are mounted: %w", err)
	}
	for _, d := range disks {
		if err := r.do(fmt.Sprintf("Unmounting disk '%s'", d), func(*stage) error { return l.agent.UnmountDisk(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// stopJobs stops and waits. Processes that do not stop are named, and do not
// keep the VM from being replaced or repaired.
func stopJobs(ctx context.Context, a *agent.Client, s *stage) error {
	err := a.Stop(ctx)
	var notStopped *agent.StopError
	if !errors.As(err, &notStopped) {
		return err
	}
	s.warning(fmt.Sprintf("not everything stopped: %v; going on without waiting", err))
	return a.StopAsync(ctx)
}

// script forgives an agent that is too old to run scripts.
func script(err error) error {
	if agent.UnknownMessage(err) {
		return skip("the agent runs no scripts")
	}
	return err
}

// unskipped is err unless it only says that there was nothing to do.
func unskipped(err error) error {
	var why skip
	if errors.As(err, &why) {
		return nil
	}
	return err
}

// detachDisk takes the persistent disk from a VM.
func (r *run) detachDisk(ctx context.Context, vm string) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil {
		return nil
	}
	return r.do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(*stage) error {
		err := r.cpi.DetachDisk(ctx, vm, d.CID)
		if cpi.NotFound(err) || cpi.NotImplemented(err) {
			return skip("not attached")
		}
		return err
	})
}

// stopSwapped stops the jobs on the VM that the current one has replaced, and
// takes the disk from it. Where it does not answer any more, the CPI takes it.
func (r *run) stopSwapped(ctx context.Context) error {
	old := r.state.Get().Own.Swap
	if old == nil || old.CID == "" {
		return nil
	}
	client := r.running
	if !r.plan.swap {
		client = r.swapped // found by an earlier run's record
	}
	if client != nil {
		err := r.stopVM(ctx, leaver{cid: old.CID, agent: client, vm: "delete", instance: "keep", deployment: "keep", unmount: true})
		if err != nil {
			return err
		}
	} else {
		r.root.warning(fmt.Sprintf("the jobs on VM %s are not stopped and its disk is not unmounted: its agent does not answer", old.CID))
	}
	return r.detachDisk(ctx, old.CID)
}
