package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// expectAgent keeps how the agent of a VM that is about to be made will be
// reached, beside that of the VM that runs.
func (r *run) expectAgent(agentID string) error {
	now := kept.Agent{}
	if vm := r.state.Get().CurrentVMCID; vm != "" {
		now = r.recallAgent(vm)
	}
	now.Coming = &kept.Agent{AgentID: agentID, MBus: r.about.MBus, CA: r.about.CA}
	return r.keepAgent(now)
}

// rememberAgent keeps that the VM's agent is reached as the manifest says.
func (r *run) rememberAgent(vm string) error {
	return r.keepCurrent(kept.Agent{VM: vm, MBus: r.about.MBus, CA: r.about.CA})
}

// keepCurrent keeps how the current VM's agent is reached, beside that of the
// one that it replaces.
func (r *run) keepCurrent(now kept.Agent) error {
	now.AgentID, now.Coming, now.Old = "", nil, nil
	if old := r.state.Get().Own.Swap; old != nil {
		was := r.recallAgent(old.CID)
		was.Old, was.Coming = nil, nil
		now.Old = &was
	}
	return r.keepAgent(now)
}

// learn keeps how the VM's agent was reached, where that is not kept: the run
// that made the VM was killed before it came to that. A plan changes nothing.
func (r *run) learn(vm string) {
	if was, ok := r.folder().Agent(); r.scratch != "" || !r.facts.Answers || ok && was.VM == vm {
		return
	}
	now := r.recallAgent(vm)
	if found := r.facts.Reached; found.MBus != "" {
		now.MBus, now.CA = found.MBus, found.CA
	}
	if old := r.state.Get().Own.Swap; old != nil {
		was := r.recallAgent(old.CID)
		was.Old = nil
		now.Old = &was
	}
	if err := r.keepAgent(now); err != nil {
		r.root.Warning(fmt.Sprintf("how the agent of VM %s is reached could not be kept; a change of its address, certificate or password will need --old-mbus and --old-ca: %v", vm, err))
	}
}

func (r *run) keepAgent(now kept.Agent) error { return r.folder().SetAgent(now) }

// folder is what this machine remembers of the deployment.
func (r *run) folder() kept.Folder { return kept.At(r.dir) }

// comingAgent is how the agent of a VM is reached that was being made with that
// agent id; nil if that is not remembered.
func (r *run) comingAgent(agentID string) *kept.Agent {
	now, ok := r.folder().Agent()
	if !ok || now.Coming == nil || now.Coming.AgentID != agentID || now.Coming.MBus == "" {
		return nil
	}
	return now.Coming
}

func (r *run) recallAgent(vm string) kept.Agent {
	fallback := kept.Agent{VM: vm, MBus: r.about.MBus, CA: r.about.CA}
	if r.opts.OldMBus != "" || r.opts.OldCA != "" {
		fallback.MBus = cmp.Or(r.opts.OldMBus, fallback.MBus)
		fallback.CA = cmp.Or(r.opts.OldCA, fallback.CA)
		return fallback
	}
	// What is absent, damaged or of another VM says nothing; the manifest does.
	if now, ok := r.folder().Agent(); ok {
		if of, ok := now.Of(vm, r.madeWith); ok {
			return of
		}
	}
	return fallback
}

// madeWith reports whether the current VM was made with that agent id, as far as
// the state is at hand.
func (r *run) madeWith(agentID string) bool {
	return r.state == nil || r.state.Get().Own.AgentID == agentID
}

func (r *run) newAgent(mbus, ca string) (*agent.Client, error) {
	return r.agentAt(mbus, ca, r.state.Get().DirectorID)
}

func (r *run) agentAt(mbus, ca, replyTo string) (*agent.Client, error) {
	return r.agents(replyTo).At(agent.Access{MBus: mbus, CA: ca})
}

// existingAgentTimeout is how long the agent of a VM that should be up may
// take to answer; today's tools use the same 10 s.
const existingAgentTimeout = 10 * time.Second

// goneAgentTimeout is how long that of a VM may take whose deletion was begun.
const goneAgentTimeout = 3 * time.Second

// answerTime is how long the agent of a VM may take to answer.
func (r *run) answerTime(vm string) time.Duration {
	limit := existingAgentTimeout
	if r.state != nil && slices.ContainsFunc(r.state.Get().Own.Intents, func(in state.Intent) bool { return in.CID == vm }) {
		limit = goneAgentTimeout
	}
	return min(limit, r.opts.AgentTimeout)
}

// lookAtAgent asks the agent of the recorded VM, if there is one, how it is.
func (r *run) lookAtAgent(ctx context.Context) error {
	st := r.state.Get()
	r.facts, r.running = plan.Facts{}, nil
	vm := st.CurrentVMCID
	if vm == "" {
		return nil
	}
	var err error
	if r.running, r.facts, err = r.askAgentOf(ctx, vm, st.Own.AgentID); err != nil {
		return err
	}
	r.learn(vm)
	if r.facts.Answers && r.scratch == "" {
		r.foundAgain(vm)
		r.reached(r.running, vm).EndLogins(ctx)
		if err := r.settleDisk(); err != nil {
			return err
		}
	}
	old := st.Own.Swap
	if old == nil {
		return nil
	}
	client, found, err := r.askAgentOf(ctx, old.CID, old.AgentID)
	r.swapped = nil
	if found.Answers {
		r.swapped = client
	}
	return err
}

// settleDisk records the disk that the VM uses as the current one: an earlier run
// was killed before it could.
func (r *run) settleDisk() error {
	now, changed := plan.Settled(r.state.Get(), r.facts)
	if !changed {
		return nil
	}
	r.root.Info(fmt.Sprintf("An earlier run was interrupted when disk '%s' was in use already", plan.CurrentDisk(now)))
	return r.state.Update(func(st *state.State) error {
		st.CurrentDiskID = now.CurrentDiskID
		return nil
	})
}

// askAgentOf asks the agent of one VM how it is. agentID, where it is known,
// tells it from another VM's at the same address. It returns the client that the
// agent answers, or else the one that it most likely will.
func (r *run) askAgentOf(ctx context.Context, vm, agentID string) (*agent.Client, plan.Facts, error) {
	how := r.recallAgent(vm)
	limit := r.answerTime(vm)
	var client *agent.Client
	var facts plan.Facts
	err := r.do(fmt.Sprintf("Waiting for the agent on VM '%s'", vm), func(s *report.Stage) error {
		told := s.Wait(ctx)
		defer told.End()
		told.Say("the agent does not answer yet")
		var found agent.Access
		var err error
		for others := len(r.accesses(how)) - 1; ; others-- {
			client, found, err = r.findAgent(ctx, how, limit, r.state.Get().DirectorID)
			if client == nil {
				return err
			}
			if err != nil {
				break
			}
			told.End() // ask says itself what it waits for
			// An agent may restart with other settings just after it has answered.
			if facts, err = r.ask(ctx, s, client, agentID); !unreachable(err) || others <= 0 {
				break
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			facts = plan.Facts{AgentErr: err}
			return report.Skip(noAnswer(err))
		}
		facts.Reached, facts.Served = found, servedBy(ctx, client)
		return r.keepAccess(vm, found)
	})
	return client, facts, err
}

// noAnswer says why an agent is of no use now.
func noAnswer(err error) string {
	_, busy := errors.AsType[*agent.BusyError](err)
	_, foreign := errors.AsType[*ForeignAgentError](err)
	if busy || foreign {
		return err.Error()
	}
	if _, answered := errors.AsType[*agent.Error](err); answered {
		return "it answers with an error: " + err.Error()
	}
	return "it does not answer: " + err.Error()
}

// busyFixTime is how long a run with --fix waits for an agent that is busy
// before it counts as one that does not answer.
const busyFixTime = 30 * time.Second

// busyTime is how long an agent may go on with a task of an earlier run.
func (r *run) busyTime() time.Duration {
	if r.opts.Fix {
		return min(busyFixTime, r.opts.AgentTimeout)
	}
	return r.opts.AgentTimeout
}

// ask asks the agent for its state and its disks.
func (r *run) ask(ctx context.Context, s *report.Stage, client *agent.Client, agentID string) (plan.Facts, error) {
	now, err := client.GetState(ctx, false)
	if err != nil {
		return plan.Facts{}, err
	}
	if err := ownAgent(client, now, agentID); err != nil {
		return plan.Facts{}, err
	}
	limit := r.busyTime()
	told := s.Wait(ctx)
	defer told.End()
	told.Say(fmt.Sprintf("the agent is busy with a task of an earlier run; it gets %s to end it", limit.Round(time.Second)))
	mounted, err := client.ListDiskInTurn(ctx, limit)
	if err != nil {
		return plan.Facts{}, err
	}
	return plan.Facts{Answers: true, HasVM: true, Now: now, Mounted: mounted}, nil
}

func (r *run) sayAddress(address string) {
	if address != "" {
		r.root.Info(fmt.Sprintf("Instance '%s/0' is running at %s", r.about.Group, address))
	}
}

// ownAgent reports whether the agent that answered is the one a VM was made with,
// as far as that is known.
func ownAgent(client *agent.Client, now agent.State, agentID string) error {
	if agentID == "" || now.AgentID == "" || now.AgentID == agentID {
		return nil
	}
	return &ForeignAgentError{Address: client.Address(), Got: now.AgentID, Want: agentID}
}

// lookByCPI asks the CPI what the agent did not say, where a plan needs that;
// before, it settles what an interrupted run has left open, and afterwards a
// silent VM may be rebooted.
func (r *run) lookByCPI(ctx context.Context) error {
	if r.askedCPI = r.looksByCPI(); !r.askedCPI {
		return nil
	}
	if r.scratch == "" {
		if err := r.journal.Settle(ctx); err != nil {
			return err
		}
	}
	if err := r.look(ctx, r.facts.Answers); err != nil {
		return err
	}
	if r.scratch == "" && r.mayRevive() {
		return r.revive(ctx)
	}
	return nil
}

// lookForDelete asks the CPI for VM and disk. It asks in any case: a CPI that
// looks in the wrong place does not know any VM, and what it does not know would
// count as deleted.
func (r *run) lookForDelete(ctx context.Context) error { return r.look(ctx, false) }

// look asks the CPI what the agent did not say: whether VM and disk exist. seen
// says that the VM need not be asked for.
func (r *run) look(ctx context.Context, seen bool) error {
	st := r.state.Get()
	if cid := st.CurrentVMCID; cid != "" && !seen {
		if err := r.lookForVM(ctx, cid, true); err != nil {
			return err
		}
	}
	d := st.Disk()
	if d == nil || slices.Contains(r.facts.Mounted, d.CID) {
		return nil
	}
	return r.lookForDisk(ctx, d)
}

// lookForVM asks the CPI whether the VM exists. One whose agent answers does: a
// CPI that cannot tell is then only forgiven if the run can do without.
func (r *run) lookForVM(ctx context.Context, cid string, needed bool) error {
	found := r.facts
	err := r.do(fmt.Sprintf("Looking for VM '%s'", cid), func(*report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		exists, err := c.HasVM(ctx, cid)
		switch {
		case cpi.NotImplemented(err) && found.Answers && !needed:
			return report.Skip("the CPI cannot tell")
		case err != nil:
			return err
		}
		found.HasVM = exists
		return nil
	})
	if err == nil && found.Answers && !found.HasVM {
		// The VM may be going right now, and its agent with it.
		if err := r.running.Ping(ctx); err != nil && ctx.Err() == nil {
			found.Answers, found.AgentErr = false, err
			r.facts = found
			return nil
		}
		return fmt.Errorf("the CPI does not know VM %s, whose agent answers: the CPI looks in the wrong place (another account, region or home folder?); nothing was changed", cid)
	}
	r.facts = found
	return err
}

// lookForDisk asks the CPI whether the disk exists.
func (r *run) lookForDisk(ctx context.Context, d *state.Disk) error {
	return r.do(fmt.Sprintf("Looking for disk '%s'", d.CID), func(*report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		exists, err := c.HasDisk(ctx, d.CID)
		if cpi.NotImplemented(err) {
			r.facts.DiskAsked = true
			return report.Skip("the CPI cannot tell")
		}
		r.facts.DiskGone, r.facts.DiskAsked = err == nil && !exists, err == nil
		return err
	})
}

// isSilent reports whether the VM has an agent that does not answer.
func (r *run) isSilent() bool { return r.running != nil && !r.facts.Answers }

// mayRevive reports whether a silent VM may be rebooted before it is given up.
func (r *run) mayRevive() bool {
	st := r.state.Get()
	return (r.opts.Fix || r.lostToSecondDisk(st.CurrentVMCID)) && r.isSilent() && r.facts.HasVM && (st.Own.Reached || st.Own.AgentID == "")
}

// reviveDead restarts a VM whose agent is silent. One that is only busy is left
// to its work.
func (r *run) reviveDead(ctx context.Context) error {
	if !r.isSilent() || r.facts.Busy() {
		return nil
	}
	if err := r.prepareCPI(ctx); err != nil {
		return err
	}
	if err := r.look(ctx, false); err != nil {
		return err
	}
	if !r.isSilent() {
		return nil
	}
	return r.revive(ctx)
}

// revive restarts a VM whose agent does not answer, where that was asked for:
// the jobs of one that answers again can be stopped in order.
func (r *run) revive(ctx context.Context) error {
	cid := r.state.Get().CurrentVMCID
	able := true
	err := r.do(fmt.Sprintf("Rebooting VM '%s'", cid), func(*report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		err = c.RebootVM(ctx, cid)
		switch {
		case cpi.NotImplemented(err) || cpi.NotSupported(err):
			able = false
			return report.Skip("the CPI cannot")
		case err != nil:
			return report.Skip("failed: " + err.Error())
		}
		return nil
	})
	if err != nil || ctx.Err() != nil || !able {
		return errors.Join(err, ctx.Err())
	}
	r.revived = true
	return r.do(fmt.Sprintf("Waiting for the agent on VM '%s'", cid), func(s *report.Stage) error {
		told := s.Wait(ctx)
		defer told.End()
		told.Say("the agent does not answer yet after the reboot")
		// An agent that was to restart with other settings may have done so now.
		client, found, err := r.findAgent(ctx, r.recallAgent(cid), min(rebootTimeout, r.opts.AgentTimeout), r.state.Get().DirectorID)
		var facts plan.Facts
		if err == nil {
			told.End()
			r.running = client
			facts, err = r.ask(ctx, s, client, r.state.Get().Own.AgentID)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.facts.AgentErr = err
			return report.Skip(noAnswer(err))
		}
		facts.Reached, facts.Served = found, servedBy(ctx, client)
		facts.DiskGone, facts.DiskAsked = r.facts.DiskGone, r.facts.DiskAsked
		r.facts = facts
		return r.keepAccess(cid, found)
	})
}

// rebootTimeout is how long an agent may take after its VM was rebooted.
const rebootTimeout = 2 * time.Minute

// refuseSilent keeps a delete from going on without the agent, which it needs.
func (r *run) refuseSilent(context.Context) error {
	st := r.state.Get()
	cid := st.CurrentVMCID
	if cid == "" || r.facts.Answers || !r.facts.HasVM || r.opts.Fix {
		return nil
	}
	if st.Own.AgentID != "" && !st.Own.Reached {
		return nil // it has no jobs to stop
	}
	return &plan.AgentSilentError{VM: cid, Err: r.facts.AgentErr, Next: nextDelete}
}
