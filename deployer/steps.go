package deployer

// The groups of stages, as their users know them from create-env.
const (
	validating = "validating"
	installing = "installing CPI"
	deploying  = "deploying"
	deleting   = "deleting deployment"
)

// deployRows is a deploy, whole and in order.
func deployRows() []row {
	return []row{
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "lock state", group: validating, do: (*run).lockState, end: (*run).unlockState},
		{name: "start ruby", group: validating, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "fetch artifacts", group: validating, do: (*run).fetchArtifacts},
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "skip", do: (*run).skipIfCurrent}, // needs no CPI, so that looking costs nothing
		{name: "bind registry", do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", group: installing, do: (*run).buildCPI, end: (*run).cleanUpCPI},
		{name: "connect cpi", do: (*run).connectCPI},
		{name: "settle intents", do: (*run).settleIntents}, // of a run that was cut
		{name: "look", do: (*run).lookAtVM},
		{name: "plan", do: (*run).decide},
		{name: "render jobs", when: plan.newVM, do: (*run).renderEarly, end: (*run).removeRendered},
		{name: "upload stemcell", when: plan.newVM, do: (*run).uploadStemcell},
		{name: "clear the record", when: plan.newVM, group: deploying, do: (*run).clearRecord}, // no return: other tools must not skip from here on
		{name: "stop old vm", when: plan.newVM, group: deploying, do: (*run).stopOldVM},        // downtime starts
		{name: "delete old vm", when: plan.newVM, group: deploying, do: (*run).deleteOldVM},
		{name: "create vm", when: plan.newVM, group: deploying, do: (*run).createVM},
		{name: "open tunnel", when: plan.newVM, group: deploying, do: (*run).openTunnel, end: (*run).closeTunnel},
		{name: "wait for agent", when: plan.startsJobs, group: deploying, do: (*run).waitForAgent},
		{name: "disks", when: plan.newVM, group: deploying, do: (*run).provideDisk},
		{name: "initial apply", when: plan.newVM, group: deploying, do: (*run).initialApply}, // tells a dynamic address
		{name: "render jobs again", when: plan.newVM, group: deploying, do: (*run).renderLate},
		{name: "compile", when: plan.newVM, group: deploying, do: (*run).compilePackages, end: (*run).awaitKept},
		{name: "apply", when: plan.newVM, group: deploying, do: (*run).updateInstance},
		{name: "start jobs", when: plan.startsJobs, group: deploying, do: (*run).startJobs}, // downtime ends
		{name: "record deployment", when: plan.newVM, group: deploying, do: (*run).recordDeployment},
		{name: "clean up", do: (*run).deleteUnused},
	}
}

// deleteRows is a delete, whole and in order.
func deleteRows() []row {
	return []row{
		{name: "find state", do: (*run).findState},
		{name: "read manifest", group: validating, do: (*run).readManifest},
		{name: "lock state", group: validating, do: (*run).lockState, end: (*run).unlockState},
		{name: "start ruby", group: validating, do: (*run).startRuby, end: (*run).stopRuby},
		{name: "fetch cpi releases", group: validating, do: (*run).fetchCPIReleases},
		{name: "look at the agent", do: (*run).lookAtAgent},
		{name: "bind registry", do: (*run).bindRegistry, end: (*run).stopRegistry},
		{name: "build cpi", group: installing, do: (*run).buildCPI, end: (*run).cleanUpCPI},
		{name: "connect cpi", do: (*run).connectCPI},
		{name: "settle intents", do: (*run).settleIntents}, // of a run that was cut
		{name: "settle intents", do: (*run).settleIntents},
		{name: "look", do: (*run).lookAtVM},
		{name: "refuse a silent agent", do: (*run).refuseSilent},
		{name: "stop vm", group: deleting, do: (*run).stopOldVM},
		{name: "delete vm", group: deleting, do: (*run).deleteOldVM},
		{name: "delete disks", group: deleting, do: (*run).deleteDisks},
		{name: "delete stemcells", group: deleting, do: (*run).deleteStemcells},
		{name: "uninstall", do: (*run).uninstall},
	}
}
