// Package deployer creates, changes and deletes the VM of a manifest. A run looks
// at its instance, decides a plan, and runs its steps in order; each kind of step
// has one doer.
package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// Deploy creates the VM, or changes it to match the manifest.
func Deploy(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Write
	if opts.Planned != nil {
		opts.Asked = opts.Planned.Asked
	}
	r := newRun(opts)
	r.t.From.Replacing = r.confirmReplaced
	if opts.Previous {
		return r.goBack(ctx)
	}
	err := r.execute(ctx, r.deployPhases())
	if opts.OnFailure == PutBack && ctx.Err() == nil && r.jobsFail(err) {
		return r.putBack(ctx, err)
	}
	return err
}

// MakePlan returns the plan that Deploy would carry out, and changes nothing.
func MakePlan(ctx context.Context, opts Options) (PlanFile, error) {
	opts.Inputs.Generate = document.Plan
	file := PlanFile{Format: PlanFormat, Asked: opts.Asked, Salt: plan.NewSalt()}
	r := newRun(opts)
	save := func(ctx context.Context) (err error) {
		st := r.t.State.Get()
		file.View, file.Down = r.view, r.whyDown()
		file.Checked = len(r.t.About.Health) > 0
		if !opts.Previous { // which reads no manifest
			file.PostDeploy = slices.Contains(plan.ScriptsOf(r.newJobs()), string(plan.PostDeploy))
		}
		file.Apart, file.Workers = r.compiledApart()
		if r.artifacts != nil {
			file.Contents = contentsOf(r.artifacts.Releases)
		}
		file.Unchecked = r.unchecked
		file.Plan, file.Deployment, file.StateFile = r.plan, r.t.About.Name, r.t.From.StateName(r.t.StatePath)
		if r.t.State.Found() {
			file.Installation, file.Serial = st.InstallationID, st.Own.Serial
		}
		if opts.Deployment == nil { // Of several instances, the plan of all has the digest.
			file.Inputs, err = document.InputsDigest(ctx, opts.Manifest, r.t.From.Inputs, file.Salt)
		}
		return err
	}
	phases := r.planPhases(save)
	if opts.Previous {
		phases = r.planPreviousPhases(save)
	}
	err := looked(r.execute(ctx, phases))
	return file, err
}

// Stop stops the jobs, which stay stopped until Start.
func Stop(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "stopping", plan.StopSteps, (*run).expectVM, (*run).sayStopped)
}

// Start starts the jobs of the existing VM. If the agent does not answer, it reboots the
// VM first. If bootstrap stop --hard has deleted the VM, it deploys, which creates one.
func Start(ctx context.Context, opts Options) error {
	if detached, err := isDetached(opts); err != nil || detached {
		if err == nil {
			err = attach(ctx, opts)
		}
		return err
	}
	return overAgent(ctx, opts, "starting", plan.StartSteps, (*run).reviveDead, (*run).expectVM, (*run).expectDisk, (*run).expectJobs)
}

// Restart stops the jobs and starts them again.
func Restart(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "restarting", plan.RestartSteps, (*run).expectVM, (*run).expectDisk, (*run).expectJobs)
}

// PostDeploy runs the post-deploy scripts of the jobs on the existing VM.
func PostDeploy(ctx context.Context, opts Options) error {
	return overAgent(ctx, opts, "running post-deploy", plan.PostDeploySteps, (*run).expectVM)
}

// overAgent runs steps that only call the agent of the VM, after the checks.
func overAgent(ctx context.Context, opts Options, group string, steps func(plan.Decision) []plan.Step, checks ...func(*run, context.Context) error) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	return r.execute(ctx, r.agentPhases(group, steps, checks))
}

// Delete deletes everything that the state file records.
func Delete(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	r := newRun(opts)
	return r.execute(ctx, r.deletePhases())
}

// CheckDelete returns the *plan.AgentSilentError with which Delete would refuse to begin; nil:
// there is none. It changes nothing.
func CheckDelete(ctx context.Context, opts Options) error {
	opts.Inputs.Generate, opts.SkipIfMissing = document.Refuse, true
	r := newRun(opts)
	err := r.execute(ctx, r.checkDeletePhases())
	silent, _ := errors.AsType[*plan.AgentSilentError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case silent == nil:
		return nil // Delete reports other errors.
	}
	return silent
}

// CheckInputs returns the error with which a command about the VM of the state would refuse
// the manifest, or the variables of the command line. It changes nothing.
func CheckInputs(ctx context.Context, opts Options) error {
	opts.Inputs.Generate, opts.SkipIfMissing = document.Refuse, true
	r := newRun(opts)
	return r.execute(ctx, r.checkPhases())
}

// deleteRecorded runs the steps that delete what the state records.
func (r *run) deleteRecorded(ctx context.Context) error {
	ledger := r.t.Addresses.UsesLedger() || r.t.Addresses.Recorded()
	var orphans []string
	if r.asked.OrphanedDisks {
		orphans = orphansOf(r.t.State.Get(), time.Time{})
	}
	err := r.runList(ctx, deleting, func(d plan.Decision) []plan.Step {
		return plan.DeleteSteps(d, r.asked.KeepDisk, ledger, r.t.EndsDeployment(), orphans)
	})
	if of := r.t.From.Of; err == nil && of != nil && r.t.From.Team == nil && !r.t.From.OfAll {
		if found, _ := file.Exists(r.t.StatePath); !found { // otherwise it has kept disks
			return deployed.ForgetState(ctx, of.Record.Dir(), of.Instance.ID, r.t.Env.Holder)
		}
	}
	if err != nil || r.t.From.Of != nil {
		return err
	}
	if err := r.t.From.Team.RemoveInputs(ctx); err != nil {
		return err
	}
	return UnshareLinks(ctx, r.t.Env.Config, r.t.From.Team, r.t.StatePath)
}

// changesVM reports whether a step belongs to the stages that change the VM.
func changesVM(k plan.Kind) bool {
	switch k {
	case plan.CheckCloud, plan.ConnectCPI, plan.RenderJobs, plan.CompileApart, plan.UploadStemcell, plan.Upload, plan.Prepare,
		plan.UpdateAgent, plan.UpdateTags, plan.ReserveAddress, plan.BindAddress, plan.ReleaseAddress, plan.Record, plan.SendDNS, plan.CleanUp, plan.LookAtLeftovers, plan.Uninstall, plan.UninstallRest:
		return false
	}
	return true
}

// checkInputs refuses a saved plan if its inputs have changed.
func (r *run) checkInputs(ctx context.Context) error {
	return r.asked.Planned.checkInputs(ctx, r.t.Request)
}

// findExisting refuses to create a new deployment for commands that need an
// existing one.
func (r *run) findExisting(ctx context.Context) error {
	if !r.asked.Existing {
		return nil
	}
	return r.findState(ctx)
}

// findState refuses a delete if there is no state file.
func (r *run) findState(ctx context.Context) error {
	if found, err := file.Exists(r.t.StatePath); found || err != nil {
		return err
	}
	if err := r.t.From.FindLost(ctx, r.t.StatePath); err != nil {
		return err
	}
	if r.asked.SkipIfMissing {
		r.t.Out.Info(fmt.Sprintf("No deployment state file at %s: nothing to delete.", r.t.From.StateName(r.t.StatePath)))
		return errDone
	}
	return file.Missing(r.t.From.StateName(r.t.StatePath), r.t.From.Manifest)
}

// sayResult reports the address of the instance.
func (r *run) sayResult(ctx context.Context) error {
	if r.plan.Starts() || r.plan.On(plan.State) == plan.Note {
		r.t.SayAddress(ctx, r.address, true)
	}
	return nil
}

// reviveDead reboots a VM with a silent agent.
func (r *run) reviveDead(ctx context.Context) error { return r.look.ReviveDead(ctx) }

// lock locks and reads the state.
func (r *run) lock(ctx context.Context) error {
	err := r.t.Lock(ctx)
	if err == nil {
		st := r.t.State.Get()
		r.locked, r.had = true, st.Resources()
		r.journal = r.newJournal()
	}
	return err
}

// peek reads the state without locking it, for a run that changes nothing.
func (r *run) peek(ctx context.Context) error {
	err := r.t.Peek(ctx)
	if err == nil {
		r.announced = len(r.t.State.Get().Own.Intents)
		r.journal = r.newJournal()
	}
	return err
}

// refuseUnrecorded refuses to create a VM if an unrecorded one is running.
func (r *run) refuseUnrecorded(ctx context.Context) error {
	return r.look.RefuseUnrecorded(ctx, r.host)
}

// readManifest reads the manifest.
func (r *run) readManifest(ctx context.Context) error {
	if err := r.t.From.RefuseFormer(); err != nil {
		return err
	}
	r.t.From.Inputs.CheckLinks = r.t.From.Of == nil // a deploy of all instances checks those of others
	in, err := r.t.Read(ctx)
	if err != nil {
		return err
	}
	r.take(in)
	return r.jobs.readOthers(ctx)
}

// take passes the manifest to the doers.
func (r *run) take(in *instance.Inputs) {
	r.in, r.addresses.ledgers = in, r.t.Addresses.For(in)
}

// use passes the fetched artifacts to the doers.
func (r *run) use(a *instance.Artifacts) {
	r.t.CPI.Use(a)
	r.artifacts, r.host = a, instance.NewHost(r.in, r.t.Record, a.Stemcell)
	r.packages.host = r.host
}

// readAdopted reads the manifest from which another tool created the VM.
func (r *run) readAdopted(ctx context.Context) (err error) {
	r.adopted, err = r.t.ReadAdopted(ctx)
	return err
}

// lookByCPI asks the CPI for facts that the plan needs and the agent did not report.
func (r *run) lookByCPI(ctx context.Context) error {
	return r.look.ByCPI(ctx, r.in.Manifest.Group, r.settle)
}

// chooseAddresses chooses the addresses of the instance. The address of the agent may be
// one of them.
func (r *run) chooseAddresses(ctx context.Context) error {
	err := r.addresses.choose(ctx, false, false)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return cmp.Or(r.look.RefuseLost(ctx), err) // A lost state may have the address.
}

// MostReplans is how often a deploy makes a new plan because another deployment has taken
// an address of the old one.
const MostReplans = 50

// runPlan runs the steps of a deploy. If another deployment has taken an address, or packages
// must be compiled on the VM, nothing is changed and a new plan is made, unless the run has a
// saved plan.
func (r *run) runPlan(ctx context.Context) error {
	for range MostReplans {
		err := r.runSteps(ctx, deploying)
		text := "Another deployment has reserved an address of the plan"
		switch {
		case errors.Is(err, errOnVM):
			text = "Packages that contain the path of their VM's folder are compiled on that VM"
		case !errors.Is(err, errTaken):
			return err
		}
		if r.asked.Planned != nil {
			return &plan.MovedError{What: err.Error()}
		}
		onVM := errors.Is(err, errOnVM)
		if err := r.makePlan(ctx); err != nil {
			return err
		}
		r.t.Out.Info(text + ": this is the new plan")
		if err := r.emitPlan(ctx); err != nil {
			return err
		}
		if onVM {
			if err := r.confirm(ctx); err != nil {
				return err
			}
		}
	}
	return errTaken
}
