// Package deployer creates, changes and deletes the VM of a manifest. A run
// finds the facts, decides a plan, and runs its steps in order; each kind of
// step has one doer.
package deployer

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

// Deploy makes the VM what the manifest says.
func Deploy(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Write
	if opts.Planned != nil {
		opts.Asked = opts.Planned.Asked
	}
	if opts.Previous {
		return execute(ctx, opts, slices.Concat(locally(), previous(), []phase{{name: "run the plan", do: (*run).runPlan}}))
	}
	return execute(ctx, opts, slices.Concat([]phase{
		{name: "find state", do: (*run).findExisting},
		{name: "check inputs", do: (*run).checkInputs},
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "lock state", group: validating, do: (*run).lockState},
	}, looking(), []phase{
		{name: "plan", do: (*run).announcePlan},
		{name: "check the machine", do: (*run).checkMachine},
		{name: "confirm", do: (*run).confirm},
		{name: "run the plan", do: (*run).runPlan},
		{name: "say", do: (*run).sayResult},
	}))
}

// MakePlan returns the plan that Deploy would run, and changes nothing.
func MakePlan(ctx context.Context, opts Options) (PlanFile, error) {
	opts.Inputs.Generate = document.Plan
	file := PlanFile{Format: PlanFormat, Asked: opts.Asked, Salt: plan.NewSalt()}
	phases := []phase{
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "peek at state", group: validating, do: (*run).peek},
	}
	if opts.Previous {
		phases = slices.Concat([]phase{
			{name: "find state", do: (*run).findState},
			{name: "peek at state", group: validating, do: (*run).peek},
			{name: "find installation", group: validating, do: (*run).findInstallation},
		}, previous())
	} else {
		phases = slices.Concat(phases, looking(), []phase{{name: "plan", do: (*run).showPlan}})
	}
	err := looked(execute(ctx, opts, append(phases, phase{name: "keep the plan", do: func(r *run, _ context.Context) (err error) {
		st := r.state.Get()
		file.Plan, file.Deployment, file.StateFile = r.plan, r.about.Name, r.statePath
		if r.state.Found() {
			file.Installation, file.Serial = st.InstallationID, st.Own.Serial
		}
		file.Inputs, err = document.InputsDigest(opts.Manifest, opts.Inputs, file.Salt)
		return err
	}})))
	return file, err
}

// looking returns the phases in which a deploy and a plan find the facts.
func looking() []phase {
	return []phase{
		{name: "start ruby", group: validating, do: (*run).startRuby},
		{name: "fetch artifacts", group: validating, do: (*run).fetchArtifacts},
		{name: "adopt", do: (*run).readAdopted},
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "look", do: (*run).lookByCPI},
		{name: "look for a VM nobody recorded", do: (*run).refuseUnrecorded},
	}
}

// previous returns the phases in which deploy --previous finds what to put
// back.
func previous() []phase {
	return []phase{
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "expect vm", do: (*run).expectVM},
		{name: "expect disk", do: (*run).expectDisk},
		{name: "find what was applied", do: (*run).findPrevious},
	}
}

// onState returns the first phases of commands that change the state.
func onState() []phase {
	return []phase{
		{name: "find state", do: (*run).findState},
		{name: "lock state", group: validating, do: (*run).lockState},
	}
}

// locally returns the first phases of commands that need the state and the
// agent, not the manifest.
func locally() []phase {
	return append(onState(), phase{name: "find installation", group: validating, do: (*run).findInstallation})
}

// Stop stops the jobs, which stay stopped until Start.
func Stop(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "stopping", plan.StopSteps(), (*run).expectVM)
}

// Start starts the jobs of the existing VM, which is rebooted if its agent does
// not answer.
func Start(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "starting", plan.StartSteps(), (*run).reviveDead, (*run).expectVM, (*run).expectDisk)
}

// Restart stops the jobs and starts them again.
func Restart(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "restarting", plan.RestartSteps(), (*run).expectVM, (*run).expectDisk)
}

// overAgent runs steps that call only the agent of the VM, after the checks.
func overAgent(ctx context.Context, opts Options, group string, steps []plan.Step, checks ...func(*run, context.Context) error) error {
	opts.Inputs.Generate = document.Refuse
	phases := append(locally(), phase{name: "look at the agent", do: (*run).lookAtAgent})
	for _, check := range checks {
		phases = append(phases, phase{name: "look at the VM", do: check})
	}
	return execute(ctx, opts, append(phases, phase{name: group, do: func(r *run, ctx context.Context) error {
		return r.runSteps(ctx, group, steps)
	}}))
}

// Delete deletes everything that the state file records.
func Delete(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, append(locally(), []phase{
		{name: "protect", do: (*run).refuseProtected},
		{name: "prepare cpi", do: (*run).prepareCPI},
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "confirm", do: (*run).confirmDelete},
		{name: "connect cpi", do: (*run).settle},
		{name: "look", do: (*run).lookForDelete},
		{name: "refuse a silent agent", do: (*run).refuseSilent},
		{name: "delete", do: func(r *run, ctx context.Context) error {
			replaced := ""
			if old := r.state.Get().Own.Swap; old != nil {
				replaced = old.CID
			}
			return r.runSteps(ctx, deleting, plan.DeleteSteps(replaced))
		}},
	}...))
}

// runPlan runs the steps of the plan.
func (r *run) runPlan(ctx context.Context) error { return r.runSteps(ctx, deploying, r.plan.Steps) }

// runSteps runs the steps in their order. group names the stages of those that
// change the VM.
func (r *run) runSteps(ctx context.Context, group string, steps []plan.Step) error {
	for _, s := range steps {
		in := ""
		if changesVM(s.Kind) {
			in = group
		}
		if err := r.step(ctx, in, string(s.Kind), func(ctx context.Context) error { return r.doStep(ctx, s) }); err != nil {
			return err
		}
	}
	return nil
}

// changesVM reports whether a step belongs to the group of stages that change
// the VM.
func changesVM(k plan.Kind) bool {
	switch k {
	case plan.CheckCloud, plan.ConnectCPI, plan.RenderJobs, plan.UploadStemcell, plan.Upload, plan.Prepare,
		plan.UpdateAgent, plan.UpdateTags, plan.Record, plan.SendDNS, plan.CleanUp, plan.LookAtLeftovers, plan.Uninstall, plan.UninstallRest:
		return false
	}
	return true
}

// doStep does one step: whatever the plan, a kind of step has one doer.
func (r *run) doStep(ctx context.Context, s plan.Step) error {
	do, ok := r.doers()[s.Kind]
	if !ok {
		return fmt.Errorf("this bootstrap cannot do the step %q", s.Kind)
	}
	return do(ctx, s)
}

// doers returns the function for each kind of step.
func (r *run) doers() map[plan.Kind]func(context.Context, plan.Step) error {
	plain := func(do func(context.Context) error) func(context.Context, plan.Step) error {
		return func(ctx context.Context, _ plan.Step) error { return do(ctx) }
	}
	return map[plan.Kind]func(context.Context, plan.Step) error{
		plan.CheckCloud:     plain(r.checkCloud),
		plan.ConnectCPI:     plain(r.connect),
		plan.RenderJobs:     plain(r.renderEarly),
		plan.UploadStemcell: plain(r.uploadStemcell),
		plan.Upload:         plain(r.uploadAll),
		plan.UploadJobs:     plain(r.uploadJobs),
		plan.Prepare:        plain(r.prepare),

		plan.ClearRecord:  plain(r.clearRecord),
		plan.CreateVM:     plain(r.createVM),
		plan.WaitForAgent: plain(r.waitForAgent),
		plan.InitialApply: plain(r.initialApply),
		plan.RenderAgain:  plain(r.renderLate),
		plan.Compile:      plain(r.compilePackages),
		plan.StopOld:      r.stopOld,
		plan.StopJobs:     r.stopJobs,
		plan.Snapshot:     plain(r.snapshotDisk),
		plan.DeleteVM:     plain(r.deleteCurrentVM),
		plan.CreateDisk:   plain(r.provideFirstDisk),
		plan.AttachDisk:   plain(r.attachCurrentDisk),
		plan.ChangeDisk:   r.changeOrMigrateDisk,
		plan.MigrateDisk:  r.migrateCurrentDisk,
		plan.OrphanDisk:   plain(r.keepUnwantedDisk),
		plan.Apply:        plain(r.updateInstance),
		plan.StartJobs:    plain(r.startJobs),
		plan.DeleteOld:    plain(r.deleteOldVM),

		plan.UpdateAgent: plain(r.updateAgent),
		plan.UpdateTags:  plain(r.updateTags),
		plan.Record:      plain(r.recordDeployment),
		plan.SendDNS:     plain(r.sendDNS),
		plan.CleanUp:     plain(r.cleanUp),

		plan.ApplyPrevious:   plain(r.applyPrevious),
		plan.RecordPrevious:  plain(r.recordPrevious),
		plan.RecordStopped:   plain(r.recordStopped),
		plan.RecordStarted:   plain(r.recordStarted),
		plan.DeleteDisks:     plain(r.deleteDisks),
		plan.DeleteStemcells: plain(r.deleteStemcells),
		plan.DeleteOrphan:    plain(r.deleteOrphan),
		plan.LookAtLeftovers: plain(func(ctx context.Context) error { return r.journal.LookAtLeftovers(ctx) }),
		plan.Uninstall:       plain(r.uninstall),
		plan.UninstallRest:   plain(r.uninstallRest),
	}
}

// emitPlan reports the plan in words.
func (r *run) emitPlan() {
	view := r.plan.View()
	r.root.Emit(report.Event{Kind: report.Planned, Plan: &view})
}
