package deployer

import (
	"slices"
)

// always are calls that a row makes whenever it runs.
func always(calls ...string) func(*run) []string {
	return func(*run) []string { return calls }
}

// hasVM are calls that a row makes where a VM is recorded.
func hasVM(calls ...string) func(*run) []string {
	return func(r *run) []string {
		switch {
		case r.state.Get().CurrentVMCID == "":
			return nil
		case !r.facts.agentTold:
			return calls[:1]
		}
		return calls
	}
}

func (r *run) lookCalls() []string {
	st := r.state.Get()
	var calls []string
	if st.CurrentVMCID != "" && !r.facts.agentTold {
		calls = append(calls, "cpi has_vm")
	}
	if d := st.Disk(); d != nil && !slices.Contains(r.facts.mounted, d.CID) {
		calls = append(calls, "cpi has_disk")
	}
	return calls
}

func (r *run) stemcellCalls() []string {
	if r.plan.on(aStemcell) == create || r.checksLight() {
		return []string{"cpi create_stemcell"}
	}
	return nil
}

// stemcellMaybe are the calls about a stemcell that may be gone, and may get
// another CID when it is uploaded again.
func (r *run) stemcellMaybe() []string {
	calls := []string{"cpi create_stemcell"}
	if r.checksLight() || r.opts.Fix {
		calls = append(calls, "cpi delete_stemcell")
	}
	return calls
}

// cloudCalls are those that check the cloud before the VM that runs is touched.
func (r *run) cloudCalls() []string {
	st := r.state.Get()
	var calls []string
	if r.asksForVM() {
		calls = append(calls, "cpi has_vm")
	}
	if st.Disk() != nil && !r.facts.diskSeen {
		calls = append(calls, "cpi has_disk")
	}
	return calls
}

func (r *run) cloudMaybe() []string {
	if r.plan.newVM() {
		return []string{"cpi has_stemcell"}
	}
	return nil
}

func (r *run) compileCalls() []string {
	if r.compileCount() > 0 {
		return []string{"agent compile_package"}
	}
	return nil
}

func (r *run) stopCalls() []string {
	switch {
	case !r.facts.hasVM:
		return nil
	case !r.facts.agentTold:
		return r.detachCalls()
	}
	calls := []string{"agent run_script", "agent drain", "agent stop"}
	if r.opts.SkipDrain {
		calls = []string{"agent run_script", "agent stop"} // post-stop is run all the same
	}
	if r.plan.on(aVM) != replace {
		return calls
	}
	calls = append(calls, "agent list_disk")
	if len(r.facts.mounted) > 0 {
		calls = append(calls, "agent unmount_disk")
	}
	if r.plan.swap {
		calls = append(calls, r.detachCalls()...)
	}
	return calls
}

func (r *run) detachCalls() []string {
	st := r.state.Get()
	if st.Disk() == nil {
		return nil
	}
	return []string{"cpi detach_disk"}
}

func (r *run) deleteVMCalls() []string {
	if r.state.Get().CurrentVMCID == "" {
		return nil
	}
	return []string{"cpi delete_vm"}
}

// diskCalls are the calls that provideDisk makes in any case.
func (r *run) diskCalls() []string {
	st := r.state.Get()
	var calls []string
	if !r.plan.newVM() {
		calls = append(calls, "agent list_disk")
	}
	mounts := append([]string{"cpi attach_disk", "cpi set_disk_metadata", "agent ping", "agent mount_disk"}, r.hintCalls()...)
	switch r.plan.on(aDisk) {
	case create:
		return append(append(calls, "cpi create_disk"), mounts...)
	case attach:
		return append(calls, mounts...)
	case migrate:
		calls = append(calls, mounts...)
		if !r.triesChange() {
			return append(calls, r.migrateCalls()...)
		}
		if !r.plan.newVM() {
			calls = append(calls, "cpi detach_disk", "agent ping")
			if slices.Contains(r.facts.mounted, st.Disk().CID) {
				calls = append(calls, "agent unmount_disk")
			}
		}
		if sameProperties(st.Disk().CloudProperties, r.manifest.Group.Disk.CloudProperties) {
			return append(calls, "cpi resize_disk")
		}
		return append(calls, "cpi update_disk")
	case keep:
		if r.plan.newVM() && st.Disk() != nil {
			return append(calls, mounts...)
		}
	}
	return calls
}

// triesChange tells whether the CPI is asked to change the disk itself.
func (r *run) triesChange() bool {
	st := r.state.Get()
	have, want := st.Disk(), r.manifest.Group.Disk
	return len(diskReasons(*have, *want)) > 0 && !r.opts.RecreateDisks && want.Size >= have.Size && r.effectiveAPI() >= 2
}

func (r *run) migrateCalls() []string {
	calls := []string{"cpi create_disk", "agent migrate_disk", "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk"}
	if !r.plan.keepOld {
		calls = append(calls, "cpi delete_disk")
	}
	return calls
}

// diskMaybe are the calls of a migration where the CPI may be able to change
// the disk itself.
func (r *run) diskMaybe() []string {
	if r.plan.on(aDisk) == migrate && r.triesChange() {
		return r.migrateCalls()
	}
	return nil
}

// hintCalls are those with which the agent is told of a disk, from API version
// 2 on.
func (r *run) hintCalls() []string {
	if r.effectiveAPI() == 1 {
		return nil
	}
	return []string{"agent add_persistent_disk"}
}

func (r *run) initialCalls() []string {
	if _, dynamic := r.manifest.Address(); dynamic {
		return []string{"agent apply", "agent get_state"}
	}
	return []string{"agent apply"}
}

func (r *run) tagCalls() []string {
	calls := []string{"cpi set_vm_metadata"}
	st := r.state.Get()
	if st.Disk() != nil {
		calls = append(calls, "cpi set_disk_metadata")
	}
	return calls
}

// cleanUpCalls are those that delete what is unused already, or will be when
// the deploy has succeeded.
func (r *run) cleanUpCalls() []string {
	var calls []string
	for _, c := range r.plan.Changes {
		if c.Action == remove && c.What != aVM {
			calls = append(calls, "cpi delete_"+c.What)
		}
		if c.Action == remove && c.What == aDisk && r.mayHold(c.Name) {
			calls = append(calls, "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk", "agent ping")
		}
	}
	st := r.state.Get()
	if old := st.Stemcell(); old != nil && r.plan.newVM() && old.Name+"/"+old.Version != r.want.stemcell {
		calls = append(calls, "cpi delete_stemcell")
	}
	return calls
}
