package deployer

// The groups of stages, as their users know them from create-env.
const (
	validating = "validating"
	installing = "installing CPI"
	deploying  = "deploying"
	deleting   = "deleting deployment"
)

// deployRows is a deploy, whole and in order. What is slow stands before what
// the service is down for.
func deployRows() []row {
	head := []row{
		{name: "find state", when: func(r *run) bool { return r.opts.Existing }, do: (*run).findState},
		{name: "check inputs", do: (*run).checkInputs},
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "lock state", group: validating, do: (*run).lockState, end: (*run).unlockState},
		{name: "start ruby", group: validating, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "fetch artifacts", group: validating, do: (*run).fetchArtifacts},
		{name: "adopt", when: adopts, do: (*run).readAdopted},
		{name: "look at the agent", do: (*run).lookAtAgent, calls: hasVM("agent ping", "agent get_state", "agent list_disk")},
		{name: "bind registry", when: (*run).looksByCPI, do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", when: (*run).looksByCPI, group: installing, do: (*run).buildCPI},
		{name: "connect cpi", when: (*run).looksByCPI, do: (*run).connectCPI, end: (*run).closeLog, calls: always("cpi info")},
		{name: "settle intents", when: (*run).looksByCPI, do: (*run).settleIntents}, // of a run that was cut
		{name: "look", when: (*run).looksByCPI, do: (*run).look, calls: (*run).lookCalls},
		{name: "revive", when: (*run).mayRevive, do: (*run).revive},
		{name: "look for a VM nobody recorded", when: (*run).lacksVM, do: (*run).refuseUnrecorded, calls: always("agent ping"), maybe: always("agent get_state", "agent list_disk")},
		{name: "plan", do: (*run).tellPlan},
		{name: "check the machine", do: (*run).checkMachine},
		{name: "confirm", do: (*run).confirm},
		{name: "bind registry", when: (*run).callsCPI, do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", when: (*run).callsCPI, group: installing, do: (*run).buildCPI},
		{name: "connect cpi", when: (*run).callsCPI, do: (*run).connectCPI, end: (*run).closeLog, calls: always("cpi info")},
		{name: "check the cloud", when: (*run).checksCloud, do: (*run).checkCloud, calls: (*run).cloudCalls, maybe: (*run).cloudMaybe},
		{name: "render jobs", when: on(Plan.applies), do: (*run).renderEarly, end: (*run).removeRendered},
		{name: "upload stemcell", when: on(Plan.newVM), do: (*run).uploadStemcell, calls: (*run).stemcellCalls, maybe: (*run).stemcellMaybe},
		{name: "upload jobs", when: on(Plan.updates), do: (*run).uploadJobs},
		{name: "upload packages", when: on(Plan.updates), do: (*run).uploadPackages},
		{name: "prepare", when: on(Plan.prepares), do: (*run).prepare, calls: always("agent prepare")},
	}
	return append(append(head, changeRows()...), []row{
		{name: "update agent", when: plans(anAgent, update), do: (*run).updateAgent, calls: always("agent update_settings", "agent ping")},
		{name: "update tags", when: plans(tags, update), do: (*run).updateTags, calls: (*run).tagCalls},
		{name: "record deployment", when: on(Plan.records), do: (*run).recordDeployment},
		{name: "send dns", when: on(Plan.sendsDNS), do: (*run).sendDNS, calls: always("agent sync_dns")},
		{name: "clean up", do: (*run).deleteUnused, calls: (*run).cleanUpCalls},
		{name: "look at leftovers", when: (*run).hasLeftovers, do: (*run).lookAtLeftovers, maybe: (*run).leftoverCalls},
		{name: "say", do: (*run).sayResult},
	}...)
}

// changeRows are the rows of a deploy that change the VM. No return from the
// first one on.
func changeRows() []row {
	return []row{
		{name: "clear the record", when: on(Plan.touches), group: deploying, do: (*run).clearRecord}, // other tools must not skip from here on
		{name: "create vm", when: on(Plan.swaps), group: deploying, do: (*run).createVM, calls: always("cpi create_vm", "cpi set_vm_metadata")},
		{name: "wait for agent", when: on(Plan.swaps), group: deploying, do: (*run).waitForAgent, calls: always("agent ping", "agent get_state")},
		{name: "initial apply", when: on(Plan.swaps), group: deploying, do: (*run).initialApply, calls: always("agent apply"), maybe: always("agent get_state")},
		{name: "render jobs again", when: on(Plan.swaps), group: deploying, do: (*run).renderLate},
		{name: "compile", when: on(Plan.swaps), group: deploying, do: (*run).compilePackages, end: (*run).awaitKept, calls: (*run).compileCalls},
		{name: "upload jobs", when: on(Plan.swaps), group: deploying, do: (*run).uploadJobs},
		{name: "compile", when: on(Plan.compilesBeside), group: deploying, do: (*run).compilePackages, end: (*run).awaitKept, calls: (*run).compileCalls},
		{name: "stop old vm", when: (*run).hasSwapped, down: true, group: deploying, do: (*run).stopSwapped, calls: (*run).stopCalls},

		{name: "stop jobs", when: on(Plan.stopsInTurn), down: true, group: deploying, do: (*run).stopRunning, calls: (*run).stopCalls},
		{name: "snapshot", when: on(Plan.snapshots), down: true, group: deploying, do: (*run).snapshotDisk, calls: always("cpi snapshot_disk")},
		{name: "delete old vm", when: on(Plan.makesVM), down: true, group: deploying, do: (*run).deleteOldVM, calls: (*run).deleteVMCalls},
		{name: "create vm", when: on(Plan.makesVM), down: true, group: deploying, do: (*run).createVM, calls: always("cpi create_vm", "cpi set_vm_metadata")},
		{name: "open tunnel", when: on(Plan.makesVM), down: true, group: deploying, do: (*run).openTunnel, end: (*run).closeTunnel},
		{name: "wait for agent", when: on(Plan.makesVM), down: true, group: deploying, do: (*run).waitForAgent, calls: always("agent ping", "agent get_state")},
		{name: "disks", when: on(Plan.providesDisk), down: true, group: deploying, do: (*run).provideDisk, calls: (*run).diskCalls, maybe: (*run).diskMaybe},
		{name: "initial apply", when: on(Plan.introduces), down: true, group: deploying, do: (*run).initialApply, calls: (*run).initialCalls}, // tells a dynamic address
		{name: "render jobs again", when: (*run).rendersLate, down: true, group: deploying, do: (*run).renderLate},
		{name: "compile", when: on(Plan.compiles), down: true, group: deploying, do: (*run).compilePackages, end: (*run).awaitKept, calls: (*run).compileCalls},
		{name: "apply", when: on(Plan.applies), down: true, group: deploying, do: (*run).updateInstance, calls: always("agent apply")},
		{name: "start jobs", when: on(Plan.starts), down: true, group: deploying, do: (*run).startJobs, calls: always("agent run_script", "agent start", "agent get_state")}, // downtime ends
		{name: "delete swapped vm", when: (*run).hasSwapped, group: deploying, do: (*run).deleteSwapped, calls: always("cpi delete_vm")},
	}
}

// planRows is a deploy as far as it changes nothing.
func planRows() []row {
	rows := []row{
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "peek at state", group: validating, do: (*run).peek, end: (*run).removeScratch},
	}
	deploy := deployRows()
	for _, w := range deploy[4:] {
		switch w.name {
		case "settle intents", "revive":
			continue
		case "plan":
			w.do = (*run).showPlan
		}
		rows = append(rows, w)
		if w.name == "plan" {
			break
		}
	}
	return rows
}

// stopRows stops the jobs and leaves the VM.
func stopRows() []row {
	return append(localRows(), []row{
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "expect vm", do: (*run).expectVM},
		{name: "stop jobs", group: "stopping", do: (*run).stopRunning},
		{name: "record", group: "stopping", do: (*run).recordStopped},
	}...)
}

// startRows starts the jobs on the VM that is there, which is rebooted if its
// agent does not answer.
func startRows() []row {
	return append(localRows(), []row{
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "start ruby", when: (*run).isDead, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "read manifest", when: (*run).isDead, group: validating, do: (*run).readForCPI},
		{name: "fetch cpi releases", when: (*run).isDeadWithoutCPI, group: validating, do: (*run).fetchCPIReleases},
		{name: "bind registry", when: (*run).isDead, do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", when: (*run).isDeadWithoutCPI, group: installing, do: (*run).buildCPI},
		{name: "connect cpi", when: (*run).isDead, do: (*run).connectCPI, end: (*run).closeLog},
		{name: "look", when: (*run).isDead, do: (*run).look},
		{name: "revive", when: (*run).isDead, do: (*run).revive},
		{name: "expect vm", do: (*run).expectVM},
		{name: "expect disk", do: (*run).expectDisk},
		{name: "start jobs", group: "starting", do: (*run).startJobs},
		{name: "record", group: "starting", do: (*run).recordStarted},
	}...)
}

// restartRows stops the jobs and starts them again.
func restartRows() []row {
	return append(localRows(), []row{
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "expect vm", do: (*run).expectVM},
		{name: "expect disk", do: (*run).expectDisk},
		{name: "stop jobs", group: "stopping", do: (*run).stopRunning},
		{name: "start jobs", group: "starting", do: (*run).startJobs},
		{name: "record", group: "starting", do: (*run).recordStarted},
	}...)
}

// stateRows is how the commands begin that change what is recorded.
func stateRows() []row {
	return []row{
		{name: "find state", do: (*run).findState},
		{name: "lock state", group: validating, do: (*run).lockState, end: (*run).unlockState},
	}
}

// localRows is how the commands begin that need the agent and little else.
func localRows() []row {
	return append(stateRows(), row{name: "find installation", group: validating, do: (*run).findInstallation})
}

// deleteRows is a delete, whole and in order.
func deleteRows() []row {
	return append(localRows(), []row{
		{name: "protect", do: (*run).refuseProtected},
		{name: "start ruby", when: (*run).lacksCPI, group: validating, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "read manifest", when: (*run).lacksCPI, group: validating, do: (*run).readForCPI},
		{name: "fetch cpi releases", when: (*run).lacksCPI, group: validating, do: (*run).fetchCPIReleases},
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "confirm", do: (*run).confirmDelete},
		{name: "bind registry", do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", when: (*run).lacksCPI, group: installing, do: (*run).buildCPI},
		{name: "connect cpi", do: (*run).connectCPI, end: (*run).closeLog},
		{name: "settle intents", do: (*run).settleIntents}, // of a run that was cut
		{name: "look", do: (*run).look},
		{name: "refuse a silent agent", do: (*run).refuseSilent},
		{name: "clear the record", group: deleting, do: (*run).clearRecord}, // other tools must not skip from here on
		{name: "stop swapped vm", when: (*run).hasSwapped, group: deleting, do: (*run).stopSwapped},
		{name: "delete swapped vm", when: (*run).hasSwapped, group: deleting, do: (*run).deleteSwapped},
		{name: "stop vm", group: deleting, do: (*run).stopRunning},
		{name: "delete vm", group: deleting, do: (*run).deleteOldVM},
		{name: "delete disks", group: deleting, do: (*run).deleteDisks},
		{name: "delete stemcells", group: deleting, do: (*run).deleteStemcells},
		{name: "look at leftovers", do: (*run).lookAtLeftovers},
		{name: "uninstall", do: (*run).uninstall},
	}...)
}

// cpiRows is how the commands go on that need the CPI and nothing else: the
// installed one, or one made as the manifest says.
func cpiRows() []row {
	return []row{
		{name: "start ruby", when: (*run).lacksCPI, group: validating, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "read manifest", when: (*run).lacksCPI, group: validating, do: (*run).readForCPI},
		{name: "fetch cpi releases", when: (*run).lacksCPI, group: validating, do: (*run).fetchCPIReleases},
		{name: "bind registry", do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", when: (*run).lacksCPI, group: installing, do: (*run).buildCPI},
		{name: "connect cpi", do: (*run).connectCPI, end: (*run).closeLog},
		{name: "settle intents", do: (*run).settleIntents}, // of a run that was cut
	}
}

// deleteDiskRows deletes an orphan.
func deleteDiskRows() []row {
	rows := append(localRows(),
		row{name: "expect orphan", do: (*run).expectOrphan},
		row{name: "confirm", do: (*run).confirmOrphan},
	)
	return append(append(rows, cpiRows()...),
		row{name: "delete disk", group: "deleting disk", do: (*run).deleteOrphan},
		row{name: "look at leftovers", do: (*run).lookAtLeftovers},
		row{name: "uninstall", group: "deleting disk", do: (*run).uninstallRest},
	)
}

// forgetDiskRows drops the record of a disk that is gone.
func forgetDiskRows() []row {
	rows := append(stateRows(),
		row{name: "find disk", do: (*run).findRecord},
		row{name: "confirm", when: func(r *run) bool { return r.opts.Force }, do: (*run).confirmForget},
	)
	asked := append(localRows()[len(stateRows()):], append(cpiRows(), row{name: "look", do: (*run).refuseExisting})...)
	for i := range asked {
		when := asked[i].when
		asked[i].when = func(r *run) bool { return !r.opts.Force && (when == nil || when(r)) }
	}
	return append(append(rows, asked...), row{name: "forget disk", do: (*run).forgetDisk})
}

// on asks the plan.
func on(ask func(Plan) bool) func(*run) bool { return func(r *run) bool { return ask(r.plan) } }

// plans tells whether the plan does that with the thing.
func plans(what string, action Action) func(*run) bool {
	return func(r *run) bool { return r.plan.on(what) == action }
}

func adopts(r *run) bool { return r.opts.AdoptFrom != "" }

// callsCPI tells whether the CPI is needed after the plan and not there yet.
func (r *run) callsCPI() bool { return r.plan.needsCPI() && !r.looksByCPI() && r.cpi == nil }

func (r *run) isSilent() bool { return r.running != nil && !r.facts.agentTold }

// isDead tells a silent VM that a reboot may help: one whose agent is only busy
// is left to its work.
func (r *run) isDead() bool { return r.isSilent() && !r.facts.isBusy() }

func (r *run) isDeadWithoutCPI() bool { return r.isDead() && r.lacksCPI() }

// mayRevive tells whether a silent VM may be rebooted before it is given up.
func (r *run) mayRevive() bool {
	st := r.state.Get()
	return (r.opts.Fix || r.lostToSecondDisk(st.CurrentVMCID)) && r.isSilent() && r.facts.hasVM && (st.Own.Reached || st.Own.AgentID == "")
}

// rendersLate tells whether templates wait for an address that only the new VM
// can tell.
func (r *run) rendersLate() bool {
	_, dynamic := r.manifest.Address()
	return r.plan.applies() && !r.plan.swap && dynamic && (r.plan.newVM() || r.plan.blank)
}

func (r *run) hasSwapped() bool { return r.state.Get().Own.Swap != nil || r.plan.swap }
