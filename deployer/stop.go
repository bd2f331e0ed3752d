package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/wait"
)

// stop stops the jobs on the running VM, with the scripts of the job
// lifecycle in order. If its agent is silent, only the disk is detached, by the
// CPI.
func (j *jobs) stop(ctx context.Context, s plan.Step) error {
	if s.With.Lost != nil {
		j.t.Out.Warning(fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: %s", s.Name, s.With.Lost))
		return j.disks.detach(ctx, s.Name, s.With.Disk)
	}
	var update *agent.Spec
	if s.Next.Update {
		update = j.comingSpec()
	}
	return j.stopVM(ctx, j.look.Running, s, update)
}

// comingSpec returns the spec that will be applied, for drain scripts.
func (j *jobs) comingSpec() *agent.Spec {
	if j.previous.VM != "" {
		return &j.previous.Spec
	}
	next := j.spec(false, j.rendered.blob)
	next.Packages = j.packages.coming()
	return &next
}

// stopVM stops the jobs of one VM: pre-stop, drain, stop, post-stop. update is
// the spec that will be applied, for drain scripts; nil: none.
func (j *jobs) stopVM(ctx context.Context, vm *agent.Client, s plan.Step, update *agent.Spec) error {
	instance, next := j.t.About.Group+"/0", *s.Next
	env := map[string]string{"BOSH_VM_NEXT_STATE": next.VM, "BOSH_INSTANCE_NEXT_STATE": next.Instance, "BOSH_DEPLOYMENT_NEXT_STATE": next.Deployment}
	if !s.With.SkipDrain {
		err := j.t.Out.Do(fmt.Sprintf("Running the pre-stop scripts '%s'", instance), func(*report.Stage) error {
			return j.runScripts(ctx, vm, "pre-stop", env)
		})
		if err != nil {
			return err
		}
		err = j.t.Out.Do(fmt.Sprintf("Draining jobs on instance '%s'", instance), func(*report.Stage) error {
			if update != nil {
				return vm.Drain(ctx, "update", update)
			}
			return vm.Drain(ctx, "shutdown", nil)
		})
		if err != nil {
			return fmt.Errorf("%w; --skip-drain stops without pre-stop and drain", err)
		}
		awaitUnmonitored(ctx, vm)
	}
	err := j.t.Out.Do(fmt.Sprintf("Stopping jobs on instance '%s'", instance), func(s *report.Stage) error { return stopProcesses(ctx, vm, s) })
	if err != nil {
		return err
	}
	err = j.t.Out.Do(fmt.Sprintf("Running the post-stop scripts '%s'", instance), func(*report.Stage) error {
		return j.runScripts(ctx, vm, "post-stop", env)
	})
	if err != nil || !next.Unmount() {
		return err
	}
	disks, err := j.mountedOn(ctx, vm, s)
	if err != nil {
		return err
	}
	for _, d := range disks {
		if err := j.t.Out.Do(fmt.Sprintf("Unmounting disk '%s'", d), func(*report.Stage) error { return vm.UnmountDisk(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// mountedOn returns the disks that are mounted on a VM. An agent that reads its
// settings from a registry takes 10 s to list them, and is not asked twice.
func (j *jobs) mountedOn(ctx context.Context, vm *agent.Client, s plan.Step) ([]string, error) {
	if j.t.About.Registry != nil && !s.With.Earlier {
		return s.With.Mounted, nil
	}
	disks, err := vm.ListDisk(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot ask which disks are mounted: %w", err)
	}
	return disks, nil
}

const (
	// unmonitorPolls are done in less time than the agent would wait.
	unmonitorPolls = 10
	// alertPause is longer than monit needs to send the agent an alert.
	alertPause = 100 * time.Millisecond
)

// awaitUnmonitored waits until monit has done what drain asks it for: to leave
// the processes unmonitored, and to send an alert about each. That takes some
// hundredths of a second, but a stop that comes before makes the agent wait for
// half a second. If it takes longer, the stop comes anyway.
func awaitUnmonitored(ctx context.Context, vm *agent.Client) {
	polls := 0
	_ = wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		polls++
		now, err := vm.GetState(ctx, false)
		monitored := slices.ContainsFunc(now.Processes, func(p agent.Process) bool { return p.State != "unknown" })
		return !monitored || polls == unmonitorPolls, err
	})
	if polls > 1 { // an agent without monit is done when it has answered the drain
		_ = wait.For(ctx, alertPause)
	}
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

// stopOld stops the jobs on the VM that the current one replaces, and detaches
// the disk from it. If its agent is silent, only the CPI detaches the disk.
func (j *jobs) stopOld(ctx context.Context, s plan.Step) error {
	client := j.look.Running
	if s.With.Earlier {
		client = j.look.Swapped // recorded by an earlier run
	}
	if client == nil {
		j.t.Out.Warning(fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: its agent does not answer", s.Name))
	} else if err := j.stopVM(ctx, client, s, nil); err != nil {
		return err
	}
	return j.disks.detach(ctx, s.Name, s.With.Disk)
}
