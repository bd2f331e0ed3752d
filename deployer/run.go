package deployer

import (
	"context"
	"errors"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// Options are the parameters of a run: environment, terminal, flags, and the deployment.
type Options struct {
	instance.Config
	instance.Options

	plan.Asked
	Planned       *PlanFile     // deploy: carry out this plan, or refuse
	Previous      bool          // deploy: apply the jobs of the last successful deploy
	OnFailure     OnFailure     // deploy: what to do if the new jobs do not run
	Templates     bool          // deploy: show the differences of rendered files
	Existing      bool          // deploy: refuse to create a new deployment
	Probe         bool          // deploy: warn if a reserved address answers already
	KeepDisk      bool          // delete: keep the persistent disk as an orphan
	OrphanedDisks bool          // delete: delete orphaned disks, too
	SkipIfMissing bool          // delete: succeed if there is no state file
	Export        string        // compile: file or folder for compiled releases; empty: none
	Compile       string        // local or local=SOURCE: compile packages on VMs on this machine
	Disk          string        // disks: CID; disks forget: empty means the current disk
	CreateTimeout time.Duration // start: how long the agent of a VM that is created may take
	OrphansBefore time.Time     // disks delete without Disk: only orphans since before then; zero: all
	// Attached are the CIDs of disks that other instances of the deployment use.
	// DropOrphans removes these orphans from the state.
	Attached map[string]bool
	Force    bool // disks forget: do not ask the CPI
	// Canaries and MaxInFlight replace those of update, of all groups of a deployment with
	// several instances; empty: not given.
	Canaries, MaxInFlight string
	// Connections are the links of a deployment with several instances, for all runs about
	// it in this process; nil: only for this run.
	Connections *Connections
	// Confirm asks the user; nil: every question is answered with yes.
	Confirm func(context.Context, Question) (bool, error)
}

// run is one run of a command: it finds the facts about its instance, decides on a plan,
// and calls the doer of each step.
type run struct {
	*work
	t     *instance.Instance
	asked Options
	at    string    // the running phase or step
	plan  plan.Plan // the doers get their steps from it
	view  plan.View // the last reported plan
	// unchecked is true if templates of the plan failed, maybe because a value is not
	// generated yet.
	unchecked bool
	// locked is true after the state was locked, and had is what it recorded in the cloud.
	locked bool
	had    []string
	// announced is how many calls of an earlier run have unknown results; only a plan sets it.
	announced int
	// nested is true if it is a part of another run, which reports the steps.
	nested bool

	host    *instance.Host     // set when artifacts are fetched
	adopted *manifest.Manifest // the manifest from which another tool created the VM; nil: not given

	workers *workers // plan: compile packages before the VM is changed; nil: nothing is compiled there
	gone    []string // ids of deleted compilation VMs of a killed run
	onVM    bool     // packages must be compiled on the VM of the instance

	vms       *vms
	disks     *disks
	jobs      *jobs
	packages  *packages
	stemcells *stemcells
	settings  *settings
	records   *records
	addresses *reservations
}

// work is shared by the doers of a run: the manifest, the state and the artifacts, and
// the results of steps for later steps. Comments name the phase or step that sets a
// field.
type work struct {
	rec       *instance.Record
	in        *instance.Inputs    // read manifest
	artifacts *instance.Artifacts // fetch artifacts

	look    *instance.Look
	journal *journal.Journal  // lock, peek: makes the CPI calls that change something
	want    plan.Wishes       // plan
	vm      string            // plan, create vm: CID of the VM for the jobs; empty: not created yet
	agent   *agent.Client     // plan, wait for agent: agent of that VM
	known   string            // plan: address of the existing VM; empty: unknown
	hints   map[string]string // plan: its addresses on dynamic networks of a cloud config
	address string            // render jobs, initial apply: the instance's address
}

// newRun returns a run that has not begun.
func newRun(opts Options) *run {
	opts.record()
	if opts.Inputs.LinkNames == nil && !opts.Offline {
		if opts.Inputs.Pipes == nil {
			opts.Inputs.Pipes = &document.Pipes{} // LinkNames reads all inputs once more
		}
		given := opts
		opts.Inputs.LinkNames = func(ctx context.Context, wishes []document.LinkWish) ([]document.LinkNames, error) {
			return LinkNames(ctx, given, wishes)
		}
	}
	t := instance.New(instance.NewEnv(opts.Config.For(opts.Options)), opts.Options)
	w := &work{rec: t.Record, look: instance.NewLook(t, opts.Fix)}
	r := &run{work: w, t: t, asked: opts}
	r.addresses = &reservations{work: w, probes: opts.Probe}
	r.stemcells, r.settings = &stemcells{work: w, cpi: t.CPI}, &settings{work: w, agents: t.Agents}
	r.disks, r.packages = &disks{work: w, cpi: t.CPI}, &packages{work: w}
	r.vms = &vms{work: w, agents: t.Agents, cpi: t.CPI, ledgers: t.Addresses, stemcells: r.stemcells, addresses: r.addresses}
	r.jobs = &jobs{work: w, agents: t.Agents, packages: r.packages, disks: r.disks, connections: opts.Connections}
	if r.jobs.connections == nil {
		r.jobs.connections = NewConnections()
	}
	r.records = &records{work: w, cpi: t.CPI, addresses: r.addresses, jobs: r.jobs}
	return r
}

// The groups of stages, with the names that users know from create-env.
const (
	deploying = "deploying"
	deleting  = "deleting deployment"
)

// errDone ends a run successfully before its last phase.
var errDone = errors.New("nothing more to do")

// execute runs the phases, and then closes what they opened.
func (r *run) execute(ctx context.Context, phases []phase) (err error) {
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return err
	}
	if err := r.t.SayPaths(); err != nil {
		return err
	}
	defer r.t.Close()
	for _, p := range phases {
		r.t.Env.Timeline.Begin(p.name)
		err = r.step(ctx, p.group, p.name, p.do)
		r.t.Env.Timeline.End(statusOf(ctx, err))
		if err != nil {
			break
		}
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		stopped := &report.InterruptedError{Row: r.at}
		if left, ok := errors.AsType[*agent.TaskLeftError](err); ok && !left.Ended {
			stopped.Left = left.Method
		}
		err = stopped
	}
	r.t.Out.Enter("", err)
	r.t.Env.Root.Emit(report.Event{Kind: report.Ended, Outcome: r.outcome(), Timeline: r.keepTimeline(statusOf(ctx, err), err)})
	return err
}

// outcome returns the result of the run.
func (r *run) outcome() *report.Outcome {
	seconds, steps := r.t.Env.Timeline.Elapsed()
	o := &report.Outcome{Changed: steps > 0, Seconds: seconds}
	if o.Changed {
		down, still := r.t.Env.Timeline.Down()
		o.Downtime, o.Down = &down, still
	}
	if r.t.State != nil {
		st := r.t.State.Get()
		o.VM, o.Down, o.Detached = st.CurrentVMCID, o.Down || st.Own.Stopped, st.Detached()
		if st.Own.Address != "" {
			o.Addresses = []string{st.Own.Address}
		}
	}
	return o
}

// step runs one step within a group of stages, unless the run was interrupted.
func (r *run) step(ctx context.Context, group, name string, do func(context.Context) error) error {
	r.t.Out.Enter(group, nil)
	r.at = name
	if ctx.Err() != nil {
		return &report.InterruptedError{Row: name}
	}
	return do(ctx)
}
