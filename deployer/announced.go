package deployer

import (
	"context"
	"fmt"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// newJournal returns the journal of the deployment whose state is open.
func (r *run) newJournal() *journal.Journal {
	return &journal.Journal{
		State: r.state, Dir: r.dir, Limit: r.opts.CPITimeout, Report: r.root,
		CPI:        r.cpi,
		Connected:  func() bool { return r.cpiClient != nil },
		About:      func() kept.Deployment { return r.about },
		Answers:    func() bool { return r.facts.Answers },
		Gone:       func() { r.running, r.facts = nil, plan.Facts{} },
		WhoIsThere: r.askWhoIsThere,
		Adopted:    r.adoptVM,
	}
}

// settle finds out how the calls of an interrupted run ended.
func (r *run) settle(ctx context.Context) error { return r.journal.Settle(ctx) }

// adoptVM makes the VM that an earlier run created the current one, and looks
// at its agent.
func (r *run) adoptVM(ctx context.Context, in state.Intent, cid string) error {
	if r.manifest != nil && r.stemcell != nil && in.Arguments != "" && in.Arguments != r.vmArguments() {
		r.root.Info(fmt.Sprintf("The manifest or a file that it names has changed since VM %s was requested: the plan says what happens to that VM", cid))
	}
	if err := r.keepCurrent(r.recallAgent(cid)); err != nil {
		return fmt.Errorf("cannot save how the agent is reached: %w", err)
	}
	return r.lookAtAgent(ctx)
}

// askWhoIsThere returns the CID of the VM that the call in may have created:
// the agent at the manifest's address must have the agent id of the call, and
// the CPI must know the VM by the name that its agent reports. doubt says why
// that is not proven.
func (r *run) askWhoIsThere(ctx context.Context, in state.Intent) (cid, doubt string) {
	if r.about.MBus == "" {
		return "", "the address of its agent is unknown"
	}
	mbus, ca := r.about.MBus, r.about.CA
	if how := r.comingAgent(in.AgentID); how != nil { // the manifest may have changed
		mbus, ca = how.MBus, how.CA
		r.opts.Secret(mbus)
	}
	client, err := r.newAgent(mbus, ca)
	if err != nil {
		return "", err.Error()
	}
	var now agent.State
	err = r.do("Looking for the agent of a VM that an earlier run may have made", func(*report.Stage) error {
		if err = client.WaitReady(ctx, min(existingAgentTimeout, r.opts.AgentTimeout), nil); err == nil {
			now, err = client.GetState(ctx, false)
		}
		if err != nil {
			doubt = "no agent identifies itself at " + client.Address()
			return report.Skip("it does not answer: " + err.Error())
		}
		return nil
	})
	name := now.VM.Name
	switch {
	case err != nil || doubt != "":
		return "", doubt
	case now.AgentID != in.AgentID:
		return "", fmt.Sprintf("another agent (%s) answers at %s", now.AgentID, client.Address())
	case cpi.CheckCID(name) != nil:
		return "", "its agent answers, but does not report the name of the VM"
	}
	// On some clouds the name that the agent reports is not the CID.
	c, err := r.cpi(ctx)
	if err != nil {
		return "", err.Error()
	}
	there, err := c.HasVM(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Sprintf("its agent answers on VM %q, but the CPI cannot say whether that is its CID (%v)", name, err)
	case !there:
		return "", fmt.Sprintf("its agent answers on VM %q, but that is not its CID", name)
	}
	return name, ""
}
