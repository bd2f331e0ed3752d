package deployer

import (
	"context"
	"slices"

	"bootstrap/deployer/access"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
)

// phase is a part of a run before its steps. This file has the phases of every command,
// in order.
type phase struct {
	name  string
	group string // the group of stages for its output; empty: none
	do    func(context.Context) error
}

// deployPhases returns the phases of deploy.
func (r *run) deployPhases() []phase {
	return slices.Concat([]phase{
		{name: "refuse ignored", do: r.refuseIgnored},
		{name: "find state", do: r.findExisting},
		{name: "check inputs", do: r.checkInputs},
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "lock state", group: instance.Validating, do: r.lock},
		{name: "delete vms of a killed run", group: instance.Validating, do: r.deleteWorkers},
		{name: "choose addresses", group: instance.Validating, do: r.chooseAddresses},
	}, r.lookPhases(), []phase{
		{name: "plan", do: r.announcePlan},
		{name: "check the machine", do: r.checkMachine},
		{name: "check monit files", do: r.checkMonit},
		{name: "confirm", do: r.confirm},
		{name: "run the plan", do: r.runAndShare},
		{name: "say", do: r.sayResult},
	})
}

// compilePhases returns the phases of compile.
func (r *run) compilePhases(do func(context.Context) error) []phase {
	return []phase{
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "lock state", group: instance.Validating, do: r.lock},
		{name: "delete vms of a killed run", group: instance.Validating, do: r.deleteWorkers},
		{name: "fetch artifacts", group: instance.Validating, do: r.fetchPackages},
		{name: "compile", do: do},
	}
}

// planPhases returns the phases of plan; save stores the plan.
func (r *run) planPhases(save func(context.Context) error) []phase {
	return slices.Concat([]phase{
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "read state", group: instance.Validating, do: r.peek},
		{name: "choose addresses", group: instance.Validating, do: r.chooseAddresses},
	}, r.lookPhases(), []phase{
		{name: "plan", do: r.showPlan},
		{name: "save plan", do: save},
	})
}

// lookPhases returns the phases in which a deploy and a plan find the facts.
func (r *run) lookPhases() []phase {
	return []phase{
		{name: "start ruby", group: instance.Validating, do: r.t.WarmRuby},
		{name: "fetch artifacts", group: instance.Validating, do: r.fetchAll},
		{name: "adopt", do: r.readAdopted},
		{name: "ask agent", do: r.look.AtAgent},
		{name: "look", do: r.lookByCPI},
		{name: "look for an unrecorded VM", do: r.refuseUnrecorded},
	}
}

// previousPhases returns the phases of deploy --previous.
func (r *run) previousPhases() []phase {
	return slices.Concat(r.localPhases(), r.findPreviousPhases(), []phase{
		{name: "run the plan", do: r.runPlan},
	})
}

// planPreviousPhases returns the phases of plan --previous.
func (r *run) planPreviousPhases(save func(context.Context) error) []phase {
	return slices.Concat([]phase{
		{name: "find state", do: r.findState},
		{name: "read state", group: instance.Validating, do: r.peek},
		{name: "find installation", group: instance.Validating, do: r.t.FindInstallation},
	}, r.findPreviousPhases(), []phase{
		{name: "save plan", do: save},
	})
}

// findPreviousPhases returns the phases that find the deploy for --previous.
func (r *run) findPreviousPhases() []phase {
	return []phase{
		{name: "ask agent", do: r.look.AtAgent},
		{name: "expect vm", do: r.expectVM},
		{name: "expect disk", do: r.expectDisk},
		{name: "find the deploy to put back", do: r.findPrevious},
	}
}

// againPhases returns the phases of StillRuns, which does not lock the state.
func (r *run) againPhases(ask func(context.Context) error) []phase {
	return []phase{
		{name: "find state", do: r.findState},
		{name: "read state", group: instance.Validating, do: r.peek},
		{name: "find installation", group: instance.Validating, do: r.t.FindInstallation},
		{name: "ask agent", do: r.look.AtAgent},
		{name: "expect vm", do: r.expectVM},
		{name: verifying, do: ask},
	}
}

// notePhases returns the phases that record what StillRuns has seen.
func (r *run) notePhases(record func(context.Context) error) []phase {
	return append(r.statePhases(), phase{name: verifying, do: record})
}

// statePhases returns the first phases of commands that change the state.
func (r *run) statePhases() []phase {
	return []phase{
		{name: "find state", do: r.findState},
		{name: "lock state", group: instance.Validating, do: r.lock},
	}
}

// localPhases returns the first phases of commands that need the state and the agent, but
// not the manifest.
func (r *run) localPhases() []phase {
	return append(r.statePhases(), phase{name: "find installation", group: instance.Validating, do: r.t.FindInstallation})
}

// changingPhases returns the first phases of commands that change the VM of the state.
func (r *run) changingPhases() []phase {
	return append([]phase{{name: "refuse ignored", do: r.refuseIgnored}}, r.localPhases()...)
}

// agentPhases returns the phases of stop, start and restart: steps that call only
// the agent of the VM, after the checks.
func (r *run) agentPhases(group string, steps func(plan.Decision) []plan.Step, checks []func(*run, context.Context) error) []phase {
	phases := append(r.changingPhases(), phase{name: "ask agent", do: r.look.AtAgent})
	for _, check := range checks {
		phases = append(phases, phase{name: "check VM", do: func(ctx context.Context) error { return check(r, ctx) }})
	}
	return append(phases, phase{name: group, do: func(ctx context.Context) error { return r.runList(ctx, group, steps) }})
}

// deletePhases returns the phases of delete.
func (r *run) deletePhases() []phase {
	return slices.Concat([]phase{{name: "delete vms without a deployment", do: r.deleteOnlyWorkers}}, r.changingPhases(), []phase{
		{name: "protect", do: r.refuseProtected},
		{name: "find ledger", do: func(context.Context) error { return r.t.Addresses.UnnamedLedger() }},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "ask agent", do: r.look.AtAgent},
		{name: "confirm", do: r.confirmDelete},
		{name: "delete vms of a killed run", do: r.deleteWorkers},
		{name: "connect cpi", do: r.settle},
		{name: "look", do: r.look.ForDelete},
		{name: "refuse a silent agent", do: r.refuseSilent},
		{name: "delete", do: r.deleteRecorded},
	})
}

// checkPhases returns the phases of CheckInputs.
func (r *run) checkPhases() []phase {
	return []phase{
		{name: "find state", do: r.findState},
		{name: "read state", do: r.peek},
		{name: "find installation", do: r.t.FindInstallation},
	}
}

// checkDeletePhases returns the phases of CheckDelete.
func (r *run) checkDeletePhases() []phase {
	return append(r.checkPhases(), []phase{
		{name: "ask agent", do: r.look.AtAgent},
		{name: "expect a silent agent", do: r.expectSilent},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "suppose results", do: r.settle},
		{name: "look", do: r.look.ForDelete},
		{name: "refuse a silent agent", do: r.refuseSilent},
	}...)
}

// detachPhases returns the phases of stop --hard.
func (r *run) detachPhases() []phase {
	return append(r.changingPhases(), []phase{
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "ask agent", do: r.look.AtAgent},
		{name: "confirm", do: r.confirmDetach},
		{name: "connect cpi", do: r.settle},
		{name: "look", do: r.look.ForDelete},
		{name: "refuse a silent agent", do: r.refuseSilentStop},
		{name: "stop", do: r.detach},
	}...)
}

// problemPhases returns the phases of Inspect and Resolve, which look at the VM and its disk.
func (r *run) problemPhases(then func(context.Context) error) []phase {
	return append(r.changingPhases(), []phase{
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "ask agent", do: r.look.AtAgent},
		{name: "connect cpi", do: r.settle},
		{name: "look", do: r.look.ForDelete},
		{name: "problems", do: then},
	}...)
}

// vmPhases returns the phases of ssh and logs, which call the agent and change nothing in
// the deployment. They take no lock, so they also work during a deploy.
func (r *run) vmPhases(use func(*access.VM, context.Context) error) []phase {
	return []phase{
		{name: "find state", do: r.findState},
		{name: "find vm", do: r.findVM},
		{name: "find installation", do: r.t.FindInstallation},
		{name: "reach the agent", do: r.reachAgent},
		{name: "use VM", do: func(ctx context.Context) error { return use(r.t.Agents.Reached(r.look.Running, r.vm), ctx) }},
	}
}

// errandPhases returns the phases of run-errand. The state is locked: a deploy would stop the
// jobs that the errand uses.
func (r *run) errandPhases(do func(context.Context) error) []phase {
	return append(r.localPhases(), []phase{
		{name: "ask agent", do: r.look.AtAgent},
		{name: "expect vm", do: r.expectVM},
		{name: "expect jobs", do: r.expectJobs},
		{name: "run errand", do: do},
	}...)
}

// attachPhases returns the phases of disks attach.
func (r *diskRecord) attachPhases() []phase {
	return append(r.statePhases(), phase{name: "attach disk", do: r.attach})
}

// deletePhases returns the phases of disks delete.
func (r *diskRecord) deletePhases() []phase {
	return append(r.localPhases(), []phase{
		{name: "find orphans", do: r.findOrphans},
		{name: "confirm", do: r.confirmDelete},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "settle intents", do: r.settle},
		{name: "delete disk", do: r.deleteData},
	}...)
}

// takePhases returns the phases of disks snapshots take.
func (r *snapshotRecord) takePhases() []phase {
	return append(r.changingPhases(), []phase{
		{name: "find disk", do: r.findDisk},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "settle intents", do: r.settle},
		{name: "take snapshot", do: r.take},
	}...)
}

// deletePhases returns the phases of disks snapshots delete.
func (r *snapshotRecord) deletePhases() []phase {
	return append(r.localPhases(), []phase{
		{name: "find snapshots", do: r.findOld},
		{name: "confirm", do: r.confirmDelete},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "settle intents", do: r.settle},
		{name: "delete snapshots", do: r.delete},
	}...)
}

// restorePhases returns the phases of disks snapshots restore.
func (r *snapshotRecord) restorePhases() []phase {
	return append(r.changingPhases(), []phase{
		{name: "find snapshot", do: r.findOne},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "settle intents", do: r.settle},
		{name: "find disk", do: r.refuseMissing},
		{name: "restore snapshot", do: r.restore},
	}...)
}

// dropPhases returns the phases of DropOrphans.
func (r *run) dropPhases() []phase {
	return append(r.localPhases(), phase{name: "drop orphans", do: r.dropOrphans})
}

// forgetPhases returns the phases of disks forget.
func (r *diskRecord) forgetPhases() []phase {
	return append(r.statePhases(), []phase{
		{name: "find disk", group: instance.Validating, do: r.find},
		{name: "find installation", group: instance.Validating, do: r.t.FindInstallation},
		{name: "prepare cpi", do: r.t.CPI.Prepare},
		{name: "settle intents", do: r.settle},
		{name: "look", do: r.refuseExisting},
		{name: "forget disk", do: r.forget},
	}...)
}

// forceForgetPhases returns the phases of disks forget --force.
func (r *diskRecord) forceForgetPhases() []phase {
	return append(r.statePhases(), []phase{
		{name: "find disk", do: r.find},
		{name: "confirm", do: r.confirmForget},
		{name: "forget disk", do: r.forget},
	}...)
}

// renderPhases returns the phases of render.
func (r *run) renderPhases(what RenderOptions) []phase {
	return []phase{
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "read state", group: instance.Validating, do: r.peekAtState},
		{name: "start ruby", group: instance.Validating, do: r.startRubyAtOnce},
		{name: "fetch releases", group: instance.Validating, do: r.fetchForJobs},
		{name: "render jobs", do: func(ctx context.Context) error { return r.renderFiles(ctx, what) }},
	}
}

// sharePhases returns the phases of ShareLinks.
func (r *run) sharePhases() []phase {
	return []phase{
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "read state", group: instance.Validating, do: r.peekAtState},
		{name: "fetch releases", group: instance.Validating, do: r.fetchForJobs},
		{name: "share links", do: r.shareLinks},
	}
}

// linksPhases returns the phases of links; view shows them.
func (r *run) linksPhases(view func(context.Context) error) []phase {
	return []phase{
		{name: "read manifest", group: instance.Validating, do: r.readManifest},
		{name: "read state", group: instance.Validating, do: r.peekAtState},
		{name: "fetch releases", group: instance.Validating, do: r.fetchForJobs},
		{name: "connect links", do: view},
	}
}

// phases returns the phases of validate.
func (v *validation) phases() []phase {
	return []phase{
		{name: "read manifest", do: v.r.readManifest},
		{name: "choose addresses", do: v.chooseAddresses},
		{name: "start ruby", do: v.startRuby},
		{name: "fetch artifacts", do: v.fetchArtifacts},
		{name: "check jobs", do: v.checkJobs},
		{name: "check packages", do: v.checkPackages},
		{name: "render jobs", do: v.renderJobs},
		{name: "check the tunnel", do: v.checkTunnel},
		{name: "check the network", do: v.checkNetwork},
	}
}
