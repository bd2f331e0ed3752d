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

// leave stops the jobs of a VM with a silent agent as far as possible: only the disk is
// detached, by the CPI.
func (j *jobs) leave(ctx context.Context, s plan.Step) error {
	j.rec.Out.Warning(fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: %s", s.Name, s.With.Lost))
	for _, cid := range s.With.Disks {
		if err := j.disks.detach(ctx, s.Name, cid); err != nil {
			return err
		}
	}
	return nil
}

// stopping returns the agent of the VM whose jobs a step stops.
func (j *jobs) stopping(s plan.Step) *agent.Client {
	if s.With.Earlier {
		return j.look.Swapped
	}
	return j.look.Running
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

// remainingSpec returns the spec of an instance after its jobs are stopped, for drain
// scripts: by the size of its disk they know whether it is deleted. A Director sends it,
// create-env does not: nil.
func remainingSpec(s plan.Step) *agent.Spec {
	if s.With.DiskSize == 0 || s.Next.Instance == "delete" {
		return nil
	}
	return &agent.Spec{PersistentDisk: s.With.DiskSize}
}

// stopScripts runs scripts of jobs that run when jobs are stopped.
func (j *jobs) stopScripts(ctx context.Context, s plan.Step) error {
	next, name := *s.Next, string(s.Kind)
	env := map[string]string{"BOSH_VM_NEXT_STATE": next.VM, "BOSH_INSTANCE_NEXT_STATE": next.Instance, "BOSH_DEPLOYMENT_NEXT_STATE": next.Deployment}
	return j.rec.Out.Do(fmt.Sprintf("Running the %s scripts '%s'", name, j.rec.About.Instance()), func(*report.Stage) error {
		return j.runScripts(ctx, j.stopping(s), name, env)
	})
}

// drain drains the jobs. Drain scripts get the spec of new jobs that are applied to the VM
// afterwards.
func (j *jobs) drain(ctx context.Context, s plan.Step) error {
	vm := j.stopping(s)
	err := j.rec.Out.Do(fmt.Sprintf("Draining jobs on instance '%s'", j.rec.About.Instance()), func(*report.Stage) error {
		if s.Next.Update {
			return vm.Drain(ctx, "update", j.comingSpec())
		}
		return vm.Drain(ctx, "shutdown", remainingSpec(s))
	})
	if err != nil {
		return fmt.Errorf("%w; --skip-drain stops without pre-stop and drain", err)
	}
	awaitUnmonitored(ctx, vm)
	return nil
}

// stop stops the processes of the jobs.
func (j *jobs) stop(ctx context.Context, s plan.Step) error {
	return j.rec.Out.Do(fmt.Sprintf("Stopping jobs on instance '%s'", j.rec.About.Instance()), func(stage *report.Stage) error {
		return stopProcesses(ctx, j.stopping(s), stage)
	})
}

// unmount unmounts the disks of a VM that is deleted afterwards.
func (j *jobs) unmount(ctx context.Context, s plan.Step) (err error) {
	vm, disks := j.stopping(s), s.With.Mounted
	if s.With.Earlier {
		if disks, err = vm.ListDisk(ctx); err != nil {
			return fmt.Errorf("cannot ask which disks are mounted: %w", err)
		}
	}
	for _, d := range disks {
		if err := j.rec.Out.Do(fmt.Sprintf("Unmounting disk '%s'", d), func(*report.Stage) error { return vm.UnmountDisk(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

const (
	// so many polls take less time than the agent would wait
	unmonitorPolls = 10
	// monit needs less time to send an alert to the agent
	alertPause = 100 * time.Millisecond
)

// awaitUnmonitored waits until monit has done two things that drain requests: it does not
// monitor the processes any more, and has sent an alert about each. That takes a few
// hundredths of a second, but an earlier stop makes the agent wait for half a second.
// After a limit, the stop is sent anyway.
func awaitUnmonitored(ctx context.Context, vm *agent.Client) {
	polls := 0
	_ = wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		polls++
		now, err := vm.GetState(ctx, false)
		monitored := slices.ContainsFunc(now.Processes, func(p agent.Process) bool { return p.State != "unknown" })
		return !monitored || polls == unmonitorPolls, err
	})
	if polls > 1 { // An agent without monit is done when it answers the drain.
		_ = wait.For(ctx, alertPause)
	}
}

// stopProcesses stops the jobs and waits. If processes do not stop, that is a warning:
// the VM can still be replaced or repaired.
func stopProcesses(ctx context.Context, a *agent.Client, s *report.Stage) error {
	err := a.Stop(ctx)
	var notStopped *agent.StopError
	if !errors.As(err, &notStopped) {
		return err
	}
	s.Warning(fmt.Sprintf("some processes did not stop: %v; continuing without waiting", err))
	return a.StopAsync(ctx)
}

// script turns the error of an old agent, which cannot run scripts, into a skip.
func script(err error) error {
	if agent.UnknownMessage(err) {
		return report.Skip("not supported by the agent")
	}
	return err
}
