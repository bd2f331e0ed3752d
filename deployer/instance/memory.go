package instance

import (
	"cmp"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
)

// keepAccess records, for later runs, how the agent of the VM was reached.
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

// Expect records how the agent of a VM that is about to be created will be
// reached, beside the agent of the running VM.
func (a *Agents) Expect(agentID string) error {
	now := kept.Agent{}
	if vm := a.rec.State.Get().CurrentVMCID; vm != "" {
		now = a.Recall(vm)
	}
	now.Coming = &kept.Agent{AgentID: agentID, MBus: a.rec.About.MBus, CA: a.rec.About.CA}
	return a.Keep(now)
}

// Remember records that the VM's agent is reached as the manifest says.
func (a *Agents) Remember(vm string) error {
	return a.KeepCurrent(kept.Agent{VM: vm, MBus: a.rec.About.MBus, CA: a.rec.About.CA})
}

// KeepCurrent records how the current VM's agent is reached, beside the agent of
// the VM that it replaces.
func (a *Agents) KeepCurrent(now kept.Agent) error {
	now.AgentID, now.Coming, now.Old = "", nil, nil
	if old := a.rec.State.Get().Own.Swap; old != nil {
		was := a.Recall(old.CID)
		was.Old, was.Coming = nil, nil
		now.Old = &was
	}
	return a.Keep(now)
}

// Keep saves how the agent of the VM is reached.
func (a *Agents) Keep(now kept.Agent) error { return a.rec.Folder().SetAgent(now) }

// coming returns how the agent is reached of a VM that was being created with
// that agent id; nil if that is not recorded.
func (a *Agents) coming(agentID string) *kept.Agent {
	now, ok := a.rec.Folder().Agent()
	if !ok || now.Coming == nil || now.Coming.AgentID != agentID || now.Coming.MBus == "" {
		return nil
	}
	return now.Coming
}

// Recall returns how the agent of a VM is reached: as the command line says, as
// this machine has recorded, or else as the manifest says.
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

// madeWith reports whether the current VM was created with that agent id,
// according to the state if that was read.
func (a *Agents) madeWith(agentID string) bool {
	return a.rec.State == nil || a.rec.State.Get().Own.AgentID == agentID
}

// Stays lists the agent's settings that cannot change on the running VM,
// and why.
func (a *Agents) Stays() (list []string, why string) {
	now, ok := a.rec.Folder().Agent()
	if ok && now.Fixed && now.VM == a.rec.State.Get().CurrentVMCID {
		return []string{plan.PartCA, plan.PartCertificate, plan.PartPassword}, "this agent cannot change its settings"
	}
	return nil, ""
}
