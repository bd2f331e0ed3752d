package instance

import (
	"cmp"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
)

// keepAccess records how the agent of the VM was reached, for later runs.
func (a *Agents) keepAccess(vm string, found agent.Access) error {
	now, ok := a.rec.Folder().Agent()
	if a.rec.Scratch != "" || !ok || now.VM != vm || now.Access() == found || a.rec.State.Get().CurrentVMCID != vm {
		return nil
	}
	if next := now.Next; next != nil && next.Access() == found {
		now.Next = nil
	}
	now.MBus, now.CA = found.MBus, found.CA
	return a.Keep(now)
}

// Expect records the URL and CA of the agent of a VM that will be created, in addition to
// those of the running VM.
func (a *Agents) Expect(agentID string) error {
	now := kept.Agent{}
	if vm := a.rec.State.Get().CurrentVMCID; vm != "" {
		now = a.Recall(vm)
	}
	now.Coming = &kept.Agent{AgentID: agentID, MBus: a.rec.About.MBus, CA: a.rec.About.CA}
	return a.Keep(now)
}

// Remember records that the VM's agent has the manifest's URL and CA.
func (a *Agents) Remember(vm string) error {
	return a.KeepCurrent(kept.Agent{VM: vm, MBus: a.rec.About.MBus, CA: a.rec.About.CA})
}

// KeepCurrent records the access to the current VM's agent, in addition to that of the VM
// that it replaces.
func (a *Agents) KeepCurrent(now kept.Agent) error {
	now.AgentID, now.Coming, now.Old = "", nil, nil
	if old := a.rec.State.Get().Own.Swap; old != nil {
		was := a.Recall(old.CID)
		was.Old, was.Coming = nil, nil
		now.Old = &was
	}
	return a.Keep(now)
}

// Keep records the access to the VM's agent.
func (a *Agents) Keep(now kept.Agent) error { return a.rec.Folder().SetAgent(now) }

// coming returns the recorded access to the agent of a VM that was being created with
// this agent id; nil: none.
func (a *Agents) coming(agentID string) *kept.Agent {
	now, ok := a.rec.Folder().Agent()
	if !ok || now.Coming == nil || now.Coming.AgentID != agentID || now.Coming.MBus == "" {
		return nil
	}
	return now.Coming
}

// Recall returns the access to a VM's agent: from the command line, from this machine's
// record, or from the manifest.
func (a *Agents) Recall(vm string) kept.Agent {
	fallback := kept.Agent{VM: vm, MBus: a.rec.About.MBus, CA: a.rec.About.CA}
	if a.rec.From.OldMBus != "" || a.rec.From.OldCA != "" {
		fallback.MBus = cmp.Or(a.rec.From.OldMBus, fallback.MBus)
		fallback.CA = cmp.Or(a.rec.From.OldCA, fallback.CA)
		return fallback
	}
	// Without a valid record for this VM, the manifest counts.
	if now, ok := a.rec.Folder().Agent(); ok {
		if of, ok := now.Of(vm, a.madeWith); ok {
			return of
		}
	}
	return fallback
}

// madeWith reports whether the current VM was created with this agent id, according to
// the state, if it was read.
func (a *Agents) madeWith(agentID string) bool {
	return a.rec.State == nil || a.rec.State.Get().Own.AgentID == agentID
}

// Stays lists the agent's settings that cannot change on the running VM, and the reason.
func (a *Agents) Stays() (list []string, why string) {
	now, ok := a.rec.Folder().Agent()
	if ok && now.Fixed && now.VM == a.rec.State.Get().CurrentVMCID {
		return []string{plan.PartCA, plan.PartCertificate, plan.PartPassword}, "this agent cannot change its settings"
	}
	return nil, ""
}
