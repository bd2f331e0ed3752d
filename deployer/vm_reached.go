package deployer

import (
	"context"
	"errors"
	"fmt"

	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

// withVM runs fn with the recorded VM, whose agent answers.
func withVM(ctx context.Context, opts Options, fn func(*access.VM, context.Context) error) error {
	opts.Inputs.Generate = document.Refuse
	opts.Inputs.Lenient = true
	r := newRun(opts)
	return r.execute(ctx, r.vmPhases(fn))
}

// SSH logs in to the VM; see access.VM.SSH.
func SSH(ctx context.Context, opts Options, what access.SSHOptions) error {
	return withVM(ctx, opts, func(vm *access.VM, ctx context.Context) error { return vm.SSH(ctx, what) })
}

// Logs fetches or shows the logs of the VM; see access.VM.Logs.
func Logs(ctx context.Context, opts Options, what access.LogsOptions) error {
	return looked(withVM(ctx, opts, func(vm *access.VM, ctx context.Context) error { return vm.Logs(ctx, what) }))
}

// looked marks the error of an interrupted run that changes nothing.
func looked(err error) error {
	if stopped, ok := errors.AsType[*report.InterruptedError](err); ok {
		stopped.Look = true
	}
	return err
}

// findVM finds the recorded VM, and this machine's record of it.
func (r *run) findVM(ctx context.Context) error {
	st, _, err := r.t.From.ReadState(r.t.StatePath, r.t.Env.Home)
	if err != nil {
		return err
	}
	if st.Detached() {
		return &NoVMError{Detached: true}
	}
	if st.CurrentVMCID == "" {
		return fmt.Errorf("there is no VM: %s records none; `bootstrap deploy MANIFEST` creates one", r.t.From.StateName(r.t.StatePath))
	}
	r.vm = st.CurrentVMCID
	return r.t.UseInstallation(ctx, st)
}

// reachAgent finds the agent of the VM and checks that it answers.
func (r *run) reachAgent(ctx context.Context) error {
	st, _, err := r.t.From.ReadState(r.t.StatePath, r.t.Env.Home)
	if err != nil {
		return err
	}
	r.look.Running, _, err = r.t.Agents.Find(ctx, r.t.Agents.Recall(st.CurrentVMCID), r.t.Env.AgentTimeout, st.DirectorID)
	if err == nil {
		r.t.Agents.Reached(r.look.Running, st.CurrentVMCID).EndLogins(ctx)
	}
	return err
}

// reached returns the VM whose agent a phase has found.
func (r *run) reached() *access.VM {
	return r.t.Agents.Reached(r.agent, r.t.State.Get().CurrentVMCID)
}
