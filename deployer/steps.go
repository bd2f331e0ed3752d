package deployer

import (
	"context"
	"fmt"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// runList runs the steps of a command that needs no decision.
func (r *run) runList(ctx context.Context, group string, steps func(plan.Decision) []plan.Step) error {
	seen := r.seen()
	r.plan, r.vm = plan.Plan{Decision: seen, Steps: steps(seen)}, seen.Current
	return r.runSteps(ctx, group)
}

// seen returns a decision without changes.
func (r *run) seen() plan.Decision {
	d := plan.Seen(r.t.State.Get(), r.look.Facts, r.asked.Asked)
	d.Checks = r.hasChecks()
	return d
}

// hasChecks reports whether the service has health checks.
func (r *run) hasChecks() bool { return len(r.t.About.Health) > 0 || r.t.About.OtherChecks > 0 }

// runSteps runs the steps of the plan in order. group is the name of the group of stages
// for steps that change the VM.
func (r *run) runSteps(ctx context.Context, group string) error {
	steps := r.plan.Steps
	if r.look.Facts.Answers && len(steps) > 0 {
		r.t.Agents.Reached(r.look.Running, r.plan.Current).EndLogins(ctx)
	}
	doers, in, took := r.doers(), "", kept.Times{}
	for i, s := range steps {
		switch {
		case changesVM(s.Kind), s.Kind == plan.SendDNS && r.plan.DNSFirst:
			in = group
		case !isQuiet(s.Kind):
			in = ""
		}
		began := time.Now()
		if err := r.runStep(ctx, in, doers, i); err != nil {
			return err
		}
		if s.Down {
			took[string(s.Kind)] += time.Since(began).Seconds()
		}
	}
	if r.verifies() {
		r.at = verifying
		if err := r.verify(ctx); err != nil {
			return err
		}
	}
	if n := len(steps); n > 0 && steps[n-1].Kind.Starts() {
		r.t.Env.Timeline.Up()
	}
	if group != deploying { // Only deploys are used for expected times.
		return nil
	}
	if err := r.t.Folder().AddTimes(took); err != nil {
		r.t.Out.Warning(err.Error())
	}
	return nil
}

// runStep runs step i and reports it in a group of stages. Before a step it renews the
// lease of a team's store, and after it this machine's record is sent to the store; for a
// group of steps, that is done once.
func (r *run) runStep(ctx context.Context, in string, doers map[plan.Kind]doer, i int) error {
	steps := r.plan.Steps
	s := steps[i]
	if i == 0 || !sameGroup(steps[i-1], s) {
		if err := r.t.State.Confirm(ctx); err != nil {
			return err
		}
	}
	if !r.nested {
		r.t.Env.Root.Emit(report.Event{Kind: report.Step, Name: string(s.Kind), Down: s.Down})
	}
	r.t.Env.Timeline.BeginStep(string(s.Kind), s.Down)
	err := r.step(ctx, in, string(s.Kind), func(ctx context.Context) error { return r.doStep(ctx, doers, i) })
	r.t.Env.Timeline.End(statusOf(ctx, err))
	if err != nil {
		if lost := r.t.State.Lost(context.WithoutCancel(ctx)); lost != nil {
			return fmt.Errorf("%w; meanwhile %w", err, lost) // The other run may be the cause of the error.
		}
		return err
	}
	if i+1 < len(steps) && sameGroup(s, steps[i+1]) {
		return nil
	}
	if err := r.t.State.Unsent(); err != nil {
		return err
	}
	r.t.Shared.Send(ctx)
	return nil
}

func sameGroup(a, b plan.Step) bool { return a.Of != "" && a.Of == b.Of }

// verifying is the name of the check after the last step.
const verifying = "look at what runs"

// isQuiet reports whether a step reports no stage; it does not end a group of stages.
func isQuiet(k plan.Kind) bool {
	return k == plan.ReserveAddress || k == plan.BindAddress || k == plan.ReleaseAddress
}

// doer carries out a step of its kind.
type doer func(context.Context, plan.Step) error

// doStep carries out step i with the doer of its kind, which is the same in every plan.
func (r *run) doStep(ctx context.Context, doers map[plan.Kind]doer, i int) error {
	s := r.plan.Steps[i]
	do, ok := doers[s.Kind]
	if !ok {
		return fmt.Errorf("this bootstrap cannot do the step %q", s.Kind)
	}
	if err := do(ctx, s); err != nil {
		return err
	}
	return r.restoreLost(ctx, i)
}

// doers returns the doer of each kind of step.
func (r *run) doers() map[plan.Kind]doer {
	plain := func(do func(context.Context) error) doer {
		return func(ctx context.Context, _ plan.Step) error { return do(ctx) }
	}
	return map[plan.Kind]doer{
		plan.ReserveAddress: plain(r.addresses.reserve),
		plan.CheckCloud:     r.checkCloud,
		plan.ConnectCPI:     plain(r.t.CPI.Connect),
		plan.RenderJobs:     r.jobs.renderEarly,
		plan.UploadStemcell: r.stemcells.upload,
		plan.CompileApart:   plain(r.compileBefore),
		plan.Upload:         plain(r.jobs.uploadAll),
		plan.UploadJobs:     plain(r.jobs.upload),
		plan.Prepare:        plain(r.jobs.prepare),

		plan.ClearRecord:  plain(r.records.clear),
		plan.CreateVM:     r.vms.create,
		plan.BindAddress:  r.addresses.bind,
		plan.WaitForAgent: plain(r.vms.waitForAgent),
		plan.InitialApply: plain(r.jobs.initialApply),
		plan.RenderAgain:  plain(r.jobs.renderLate),
		plan.Compile:      r.jobs.compile,
		plan.StopOld:      r.jobs.leave,
		plan.StopJobs:     r.jobs.leave,
		plan.Snapshot:     r.disks.snapshot,
		plan.DeleteVM:     r.vms.deleteCurrent,
		plan.CreateDisk:   r.disks.provideFirst,
		plan.AttachDisk:   r.disks.attachCurrent,
		plan.ChangeDisk:   r.disks.changeOrMigrate,
		plan.MigrateDisk:  r.disks.migrateCurrent,
		plan.OrphanDisk:   r.disks.keepUnwanted,
		plan.CreateNamed:  r.disks.createNamed,
		plan.AttachNamed:  r.disks.attachNamed,
		plan.OrphanNamed:  r.disks.orphanNamed,
		plan.Apply:        plain(r.jobs.update),
		plan.DeleteOld:    r.vms.deleteOld,

		plan.PreStop:       r.jobs.stopScripts,
		plan.Drain:         r.jobs.drain,
		plan.StopProcesses: r.jobs.stop,
		plan.PostStop:      r.jobs.stopScripts,
		plan.Unmount:       r.jobs.unmount,
		plan.Detach:        r.disks.detachFrom,

		plan.PreStart:       r.jobs.startScripts,
		plan.StartProcesses: r.jobs.start,
		plan.AwaitRunning:   r.jobs.awaitRunning,
		plan.PostStart:      r.jobs.startScripts,
		plan.CheckHealth:    r.jobs.checkHealth,
		plan.PostDeploy:     r.jobs.startScripts,

		plan.UpdateAgent: plain(r.settings.update),
		plan.UpdateTags:  r.updateTags,
		plan.RecordTags:  plain(r.recordTags),
		plan.Record:      r.records.deployment,
		plan.SendDNS:     plain(r.jobs.sendDNS),
		plan.CleanUp:     r.cleanUp,

		plan.ApplyPrevious:   plain(r.jobs.applyPrevious),
		plan.RecordPrevious:  plain(r.records.previous),
		plan.RecordStopped:   plain(r.records.stopped),
		plan.RecordDetached:  plain(r.records.detached),
		plan.RecordStarted:   plain(r.records.started),
		plan.KeepDisk:        r.disks.keepInUse,
		plan.DeleteDisks:     r.disks.deleteAll,
		plan.DeleteStemcells: plain(r.stemcells.deleteAll),
		plan.ReleaseAddress:  plain(r.t.Addresses.ReleaseAll),
		plan.DeleteOrphan:    r.disks.deleteOrphan,
		plan.LookAtLeftovers: plain(func(ctx context.Context) error { return r.journal.LookAtLeftovers(ctx) }),
		plan.Uninstall:       plain(r.records.uninstall),
		plan.UninstallRest:   plain(r.records.uninstallRest),
	}
}
