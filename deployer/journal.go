package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/journal"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// newJournal returns the journal of the deployment whose state is open.
func (r *run) newJournal() *journal.Journal {
	return &journal.Journal{
		State: r.t.State, Dir: r.t.Dir, Limit: r.t.Env.CPITimeout, Report: r.t.Out.Root,
		CPI:        r.t.CPI.Client,
		Connected:  r.t.CPI.Connected,
		About:      func() kept.Deployment { return r.t.About },
		Answers:    func() bool { return r.look.Facts.Answers },
		Gone:       func() { r.look.Running, r.look.Facts = nil, plan.Facts{} },
		WhoIsThere: r.look.WhoIsThere,
		Adopted:    r.adoptVM,
		Foresee:    r.t.Scratch != "",
	}
}

// settle finds out the results of the calls of an interrupted run.
func (r *run) settle(ctx context.Context) error { return r.journal.Settle(ctx) }

// adoptVM makes a VM that an earlier run created the current one, and asks its agent for
// its state.
func (r *run) adoptVM(ctx context.Context, in state.Intent, cid string) error {
	if r.artifacts != nil && r.artifacts.Stemcell != nil && in.Arguments != "" && in.Arguments != r.vmArguments() {
		r.t.Out.Info(fmt.Sprintf("The manifest or a file that it names has changed since VM %s was requested: the plan says what happens to that VM", cid))
	}
	if r.journal.Foresee {
		return r.look.AtAgent(ctx)
	}
	if err := r.t.Agents.KeepCurrent(r.t.Agents.Recall(cid)); err != nil {
		return fmt.Errorf("cannot save how the agent is reached: %w", err)
	}
	return r.look.AtAgent(ctx)
}
