package deployer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// reaching comes before what talks to the VM and leaves the deployment as it
// is. They take no lock: one looks at a VM while it is being deployed, too.
func reaching() []phase {
	return []phase{
		{name: "find state", do: (*run).findState},
		{name: "find vm", do: (*run).findVM},
		{name: "find installation", do: (*run).findInstallation},
		{name: "reach the agent", do: (*run).reachAgent},
	}
}

// withVM runs fn with the agent of the recorded VM as r.running.
func withVM(ctx context.Context, opts Options, fn func(*run, context.Context) error) error {
	opts.Inputs.Generate = document.Refuse
	opts.Inputs.Lenient = true
	return execute(ctx, opts, append(reaching(), phase{name: "talk to the VM", do: fn}))
}

// reached is a VM whose agent answers.
func (r *run) reached(client *agent.Client, vm string) *access.VM {
	return &access.VM{
		CID: vm, Agent: client, Deployment: r.about.Name, Group: r.about.Group,
		Dir: r.dir, Dial: r.route.Dial, Redact: r.opts.Redact, Report: r.root,
	}
}

// SSH logs in to the VM; see access.VM.SSH.
func SSH(ctx context.Context, opts Options, what access.SSHOptions) error {
	return withVM(ctx, opts, func(r *run, ctx context.Context) error { return r.reached(r.running, r.vm).SSH(ctx, what) })
}

// Logs fetches or shows the logs of the VM; see access.VM.Logs.
func Logs(ctx context.Context, opts Options, what access.LogsOptions) error {
	return looked(withVM(ctx, opts, func(r *run, ctx context.Context) error { return r.reached(r.running, r.vm).Logs(ctx, what) }))
}

// looked marks the error of an interrupted run that changes nothing.
func looked(err error) error {
	if stopped, ok := errors.AsType[*report.InterruptedError](err); ok {
		stopped.Look = true
	}
	return err
}

// findVM looks which VM there is, and what this machine knows of it.
func (r *run) findVM(context.Context) error {
	st, _, err := file.Read(r.statePath, r.opts.Home)
	if err != nil {
		return err
	}
	if st.CurrentVMCID == "" {
		return fmt.Errorf("there is no VM: %s records none; `bootstrap deploy MANIFEST` creates one", r.statePath)
	}
	r.vm = st.CurrentVMCID
	r.dir = filepath.Join(r.opts.Home, st.InstallationID)
	r.recallKnown()
	return nil
}

// reachAgent finds the agent of the VM and asks whether it is there.
func (r *run) reachAgent(ctx context.Context) error {
	st, _, err := file.Read(r.statePath, r.opts.Home)
	if err != nil {
		return err
	}
	r.running, _, err = r.findAgent(ctx, r.recallAgent(st.CurrentVMCID), r.opts.AgentTimeout, st.DirectorID)
	if err == nil {
		r.reached(r.running, st.CurrentVMCID).EndLogins(ctx)
	}
	return err
}
