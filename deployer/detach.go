package deployer

import (
	"context"
	"errors"

	"bootstrap/deployer/plan"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Detach stops the jobs and deletes the VM. The disk and the addresses stay, and deploys
// create no VM until Start.
func Detach(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	return r.execute(ctx, r.detachPhases())
}

// isDetached reports whether Detach has deleted the VM of the options.
func isDetached(opts Options) (bool, error) {
	path, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return false, err
	}
	st, found, err := opts.ReadState(path, opts.Home)
	if err != nil || !found {
		return false, nil // The command itself reports what is wrong with the state.
	}
	return st.Detached(), nil
}

// attach deploys an instance whose VM Detach has deleted.
func attach(ctx context.Context, opts Options) error {
	if opts.Manifest == "" {
		return errors.New("cannot create the VM that `bootstrap stop --hard` has deleted: that needs the manifest; name it, with the flags of the deploy")
	}
	opts.Attach, opts.Existing, opts.Inputs.Lenient, opts.AgentTimeout = true, true, false, opts.CreateTimeout
	return Deploy(ctx, opts)
}

// ReadDetached calls do with options for Start that have the manifest of all instances, which
// is read once: those whose VMs Detach has deleted are deployed from it.
func ReadDetached(ctx context.Context, opts Options, all *deployed.Record, do func(Options) error) error {
	read := opts
	read.Inputs.Generate, read.Inputs.Lenient = document.Write, false
	return ReadSeveral(ctx, read, all, func(of Several) error {
		opts.Deployment = of.Deployment
		return do(opts)
	})
}

// detach runs the steps that delete the VM.
func (r *run) detach(ctx context.Context) error {
	return r.runList(ctx, "stopping", plan.DetachSteps)
}

// detached records that the instance is to have no VM.
func (rs *records) detached(context.Context) error {
	return rs.rec.State.Update(func(st *state.State) error {
		st.Own.Stopped, st.Own.Detached = true, true
		return nil
	})
}
