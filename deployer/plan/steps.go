package plan

import (
	"slices"

	"bootstrap/state"
)

// Kind is the kind of a step; its text is the name that people see.
type Kind string

// The kinds of steps. A step does the same in every plan: the list has only the steps
// that are needed.
const (
	Look           Kind = "look"
	ReserveAddress Kind = "reserve addresses"
	CheckCloud     Kind = "check the cloud"
	ConnectCPI     Kind = "connect the CPI"
	RenderJobs     Kind = "render jobs"
	UploadStemcell Kind = "upload stemcell"
	Upload         Kind = "upload jobs and packages"
	UploadJobs     Kind = "upload jobs"
	Prepare        Kind = "prepare"
	CompileApart   Kind = "compile on other vms"

	ClearRecord  Kind = "mark deployment unfinished" // after this step the running VM is changed
	CreateVM     Kind = "create vm"
	BindAddress  Kind = "bind addresses to the vm" // and releases addresses that no VM has
	WaitForAgent Kind = "wait for agent"
	InitialApply Kind = "initial apply"
	RenderAgain  Kind = "render jobs again" // with the address that the VM reported
	Compile      Kind = "compile"
	StopOld      Kind = "stop old vm" // the VM that the current one replaces
	StopJobs     Kind = "stop jobs"   // both are single steps only if the agent is silent; otherwise they are groups of steps
	Snapshot     Kind = "snapshot"
	DeleteVM     Kind = "delete vm"
	CreateDisk   Kind = "create disk"
	AttachDisk   Kind = "attach disk"
	ChangeDisk   Kind = "change disk" // the CPI changes it, or its data is migrated
	MigrateDisk  Kind = "migrate disk"
	OrphanDisk   Kind = "orphan disk"
	CreateNamed  Kind = "create named disk" // and the other two: of persistent_disks
	AttachNamed  Kind = "attach named disk"
	OrphanNamed  Kind = "orphan named disk"
	Apply        Kind = "apply"
	StartJobs    Kind = "start jobs"    // a group of steps
	DeleteOld    Kind = "delete old vm" // and releases its addresses

	UpdateAgent Kind = "update agent"
	UpdateTags  Kind = "update tags"
	RecordTags  Kind = "record tags" // those of a new VM and its disk
	Record      Kind = "record deployment"
	SendDNS     Kind = "send dns"
	CleanUp     Kind = "clean up"

	// The steps of the groups that stop jobs.
	PreStop       Kind = "pre-stop"
	Drain         Kind = "drain"
	StopProcesses Kind = "stop"
	PostStop      Kind = "post-stop"
	Unmount       Kind = "unmount"
	Detach        Kind = "detach disk"

	// The steps of the group that starts jobs.
	PreStart       Kind = "pre-start"
	StartProcesses Kind = "start"
	AwaitRunning   Kind = "wait"
	PostStart      Kind = "post-start"
	CheckHealth    Kind = "health checks"
	PostDeploy     Kind = "post-deploy"

	ApplyPrevious   Kind = "apply previous jobs"
	RecordPrevious  Kind = "record previous deployment"
	RecordStopped   Kind = "record that the jobs are stopped"
	RecordDetached  Kind = "record that the vm is not wanted"
	RecordStarted   Kind = "record that the jobs run"
	KeepDisk        Kind = "keep disk" // makes it an orphan
	DeleteDisks     Kind = "delete disks"
	DeleteStemcells Kind = "delete stemcells"
	ReleaseAddress  Kind = "release addresses" // all addresses of the deployment
	DeleteOrphan    Kind = "delete orphaned disk"
	LookAtLeftovers Kind = "look at leftovers"
	Uninstall       Kind = "uninstall CPI"
	UninstallRest   Kind = "uninstall CPI if unused"
)

// Words returns the name of the kind in plans for people.
func (k Kind) Words() string {
	switch k {
	case Prepare:
		return "send the new jobs to the agent"
	case InitialApply:
		return "set up the new vm"
	}
	return string(k)
}

// Quiet reports whether a step of that kind only changes records while others change the
// VM. Plans for people do not list it.
func (k Kind) Quiet() bool { return k == ClearRecord || k == RecordTags }

// Starts reports whether steps of that kind are in the group that starts jobs.
func (k Kind) Starts() bool {
	return slices.Contains([]Kind{PreStart, StartProcesses, AwaitRunning, PostStart, CheckHealth, PostDeploy}, k)
}

// Step is one step of a plan.
type Step struct {
	Kind Kind   `json:"step"`
	Of   Kind   `json:"of,omitempty"`   // name of the group of steps, as people see it; empty: none
	Name string `json:"name,omitempty"` // CID of the step's VM or disk, if it is known; of a named disk, its name first
	Down bool   `json:"down,omitempty"` // the service is down while it runs
	// Calls are the methods of the CPI and the agent that the step calls: "cpi
	// create_vm", "agent stop". Maybe are calls that depend on the features of the CPI
	// and the agent.
	Calls []string `json:"calls,omitempty"`
	Maybe []string `json:"maybe,omitempty"`
	// Outcomes are the possible results, if the CPI decides.
	Outcomes []string `json:"outcomes,omitempty"`

	Disk *DiskWork `json:"disk,omitempty"` // for the steps of the disk
	Next *Next     `json:"next,omitempty"` // for the steps that stop jobs
	With With      `json:"-"`              // not saved: the decision is made again before a saved plan runs
}

// With has the arguments of a step. If only one kind of step has an argument, its comment
// names the kind.
type With struct {
	New       bool   // this run creates the VM
	Old       string // CID of the existing VM that the VM replaces; empty: none
	OldServes bool   // the jobs of Old run until a later step stops them
	Gone      bool   // Old is deleted before the VM is created

	Disk       string   // CID of the disk that the step detaches; empty: none
	Disks      []string // create vm, update tags: CIDs of the VM's disks; stop: of those that are detached
	AskVM      string   // check the cloud: CID of the VM that must exist; empty: none
	AskDisks   []string // check the cloud: CIDs of the disks that must exist
	Attached   bool     // orphan named disk: it is attached to the VM
	Replaced   bool     // orphan named disk: another one gets its name
	Again      bool     // upload stemcell: even if it is recorded as uploaded
	Fix        bool     // create vm: upload the stemcell again if the CPI refuses to create it
	AgentID    string   // delete vm: agent id of the VM
	Earlier    bool     // stop: the VM was replaced by an earlier run
	DiskSize   int      // drain: size of the disk that the instance has afterwards, in MiB
	Lost       string   // stop: why the jobs cannot be stopped: only the disk is detached
	Mounted    []string // unmount: CIDs of the disks that are mounted on the VM; unknown if Earlier is set
	KeepUnused bool     // clean up: keep unused disks as orphans
	Applies    bool     // record: jobs were applied
	Applied    string   // record: configuration hash of the jobs that the VM had before
	Stopped    bool     // record: the jobs are stopped
}

// String returns the step in words.
func (s Step) String() string {
	text := s.Kind.Words()
	if s.Name != "" {
		text += " " + s.Name
	}
	for i, o := range s.Outcomes {
		text += []string{": ", ", or "}[min(i, 1)] + o
	}
	return text
}

// Next says what happens to VM and disk after the jobs are stopped, each "keep" or
// "delete", in the form in which the Director passes it to the scripts of jobs.
type Next struct {
	VM         string `json:"vm"`
	Instance   string `json:"instance"`
	Deployment string `json:"deployment"`
	// Update is true if new jobs are applied to the VM afterwards: drain
	// scripts get their spec.
	Update bool `json:"update,omitempty"`
}

// Unmount reports whether the VM's disks are unmounted.
func (n Next) Unmount() bool { return n.VM == "delete" }

func staying() *Next  { return &Next{VM: "keep", Instance: "keep", Deployment: "keep"} }
func changing() *Next { return &Next{VM: "keep", Instance: "keep", Deployment: "keep", Update: true} }
func leaving() *Next  { return &Next{VM: "delete", Instance: "keep", Deployment: "keep"} }

// ending returns what happens when an instance is deleted. whole is true if the
// deployment is deleted with it.
func ending(whole bool) *Next {
	n := &Next{VM: "delete", Instance: "delete", Deployment: "keep"}
	if whole {
		n.Deployment = "delete"
	}
	return n
}

// Looks returns the step that has found the facts, with its calls. byCPI says whether the
// CPI was asked, too.
func Looks(st state.State, f Facts, byCPI bool) Step {
	s := Step{Kind: Look}
	switch {
	case st.CurrentVMCID == "":
	case !f.Answers:
		s.Calls = append(s.Calls, "agent ping")
	default:
		s.Calls = append(s.Calls, "agent ping", "agent get_state", "agent list_disk")
	}
	if byCPI {
		s.Calls = append(s.Calls, "cpi info")
		if st.CurrentVMCID != "" && !f.Answers {
			s.Calls = append(s.Calls, "cpi has_vm")
		}
		if d := st.Disk(); d != nil && !slices.Contains(f.Mounted, d.CID) {
			s.Calls = append(s.Calls, "cpi has_disk")
		}
	}
	if st.CurrentVMCID == "" || !f.Answers && !f.HasVM {
		s.Calls = append(s.Calls, "agent ping")
		s.Maybe = append(s.Maybe, "agent get_state", "agent list_disk")
	}
	return s
}

// Steps returns the steps of a decision in order. It uses one of the lists below, which
// have no conditions: a method returns no step if the decision does not need it.
func Steps(d Decision) []Step {
	steps := list{d}.steps()
	with := With{New: d.NewVM(), Gone: d.on(VM) == Replace && !d.Swap, Old: d.Replaced, OldServes: d.Beside || d.Swap}
	if d.Swap {
		with.Old = d.Current
	}
	for i := range steps {
		s := &steps[i].With
		s.New, s.Gone, s.Old, s.OldServes = with.New, with.Gone, with.Old, with.OldServes
		if steps[i].Kind == DeleteOld {
			with.Old = ""
		}
	}
	return steps
}

func (l list) steps() []Step {
	switch d := l.Decision; {
	case d.Nothing(), d.CreateOnly && d.on(VM) != Create:
		return nil
	case d.CreateOnly:
		return l.createOnly()
	case d.on(VM) == Create:
		return l.create()
	case d.Swap:
		return l.swap()
	case d.on(VM) == Replace:
		return l.replace()
	case !d.Touches():
		return l.withoutStop()
	case !d.updates():
		return l.onlyDisk()
	case d.Beside:
		return l.compileThenStop()
	case d.prepares():
		return l.prepareThenStop()
	}
	return l.stopThenCompile()
}

// create returns the steps that create the VM. If a recorded VM does not exist any more,
// it is deleted first, because the CPI may still have parts of it.
func (l list) create() []Step {
	return slices.Concat(
		l.reserve(), l.checkCloud(), l.uploadStemcell(), l.render(), l.compileApart(), clearRecord(),
		l.stopReplaced(), l.deleteCurrent(), l.newVM(),
		l.finish())
}

// createOnly returns the first steps of create, up to those that need the jobs. The next
// deploy continues as after a create that was killed there.
func (l list) createOnly() []Step {
	return slices.Concat(
		l.reserve(), l.checkCloud(), l.uploadStemcell(), l.render(), l.compileApart(), clearRecord(),
		l.stopReplaced(), l.deleteCurrent(),
		l.createVM(), l.bind(), waitForAgent(), l.disk(), l.initialApply(), l.compile(),
		[]Step{{Kind: RecordTags}})
}

// replace returns the steps that delete the VM and create another one.
func (l list) replace() []Step {
	return slices.Concat(
		l.reserve(), l.checkCloud(), l.uploadStemcell(), l.render(), l.compileApart(), clearRecord(),
		down(l.stopReplaced(), l.stop(StopJobs, leaving()), l.snapshot(), l.deleteCurrent(), l.newVM()),
		l.finish())
}

// newVM returns the steps that create a VM, attach the disk and apply the jobs.
func (l list) newVM() []Step {
	return slices.Concat(
		l.createVM(), l.bind(), waitForAgent(), l.disk(), l.initialApply(), l.renderAgain(),
		l.compile(), l.sendFirst(), apply(), l.start())
}

// swap returns the steps that create the new VM while the old one serves.
func (l list) swap() []Step {
	return slices.Concat(
		l.reserve(), l.checkCloud(), l.uploadStemcell(), l.render(), l.compileApart(), clearRecord(),
		l.createVM(), l.bind(), waitForAgent(), l.initialApply(), l.renderAgain(), l.compile(), l.sendFirst(), uploadJobs(),
		down(l.stop(StopOld, leaving()), l.snapshot(), l.disk(), apply(), l.start()),
		deleteOld(l.Current), l.finish())
}

// withoutStop returns the steps that change tags, settings of the agent or
// records, and start jobs that do not run.
func (l list) withoutStop() []Step {
	return slices.Concat(l.reserve(), l.connectCPI(), l.stopReplaced(), l.start(), l.finish())
}

// onlyDisk returns the steps that change the disk and start the same jobs again.
func (l list) onlyDisk() []Step {
	return slices.Concat(
		l.reserve(), l.checkCloud(), clearRecord(),
		down(l.stopReplaced(), l.stop(StopJobs, staying()), l.snapshot(), l.disk(), l.start()),
		l.finish())
}

// prepareThenStop returns the steps that update the jobs if no package must be compiled:
// the agent fetches all files while the old jobs run.
func (l list) prepareThenStop() []Step {
	return slices.Concat(
		l.reserve(), l.connectCPI(), l.render(), l.compileApart(), upload(), prepare(), clearRecord(),
		down(l.stopReplaced(), l.stop(StopJobs, changing()), l.snapshot(), l.disk(), apply(), l.start()),
		l.finish())
}

// compileThenStop returns the steps that update the jobs of a VM without jobs, while the
// VM that it replaces still serves.
func (l list) compileThenStop() []Step {
	return slices.Concat(
		l.reserve(), l.connectCPI(), l.render(), l.compileApart(), upload(), clearRecord(), l.compile(),
		down(l.stopReplaced(), l.stop(StopJobs, changing()), l.snapshot(), l.disk(), l.setUp(), apply(), l.start()),
		l.finish())
}

// stopThenCompile returns the steps that update the jobs and compile packages while the
// jobs are stopped, because the agent removes the jobs' packages when it compiles.
func (l list) stopThenCompile() []Step {
	return slices.Concat(
		l.reserve(), l.connectCPI(), l.render(), l.compileApart(), upload(), clearRecord(),
		down(l.stopReplaced(), l.stop(StopJobs, changing()), l.snapshot(), l.disk(), l.setUp(), l.compile(), apply(), l.start()),
		l.finish())
}

// finish returns the last steps of every list: the changes without downtime, recording,
// and deleting unused objects.
func (l list) finish() []Step {
	return slices.Concat(
		l.deleteReplaced(), l.bindAgain(), l.updateAgent(), l.updateTags(), l.record(), l.sendDNS(), l.cleanUp())
}

// StopSteps returns the steps of bootstrap stop.
func StopSteps(d Decision) []Step {
	return down(list{d}.stop(StopJobs, staying()), []Step{{Kind: RecordStopped}})
}

// DetachSteps returns the steps of bootstrap stop --hard. The wish is recorded first: what a
// killed run has begun is not taken for a lost VM.
func DetachSteps(d Decision) []Step {
	l := list{d}
	return down([]Step{{Kind: RecordDetached}}, clearRecord(), l.stopReplaced(), l.deleteReplaced(),
		l.stop(StopJobs, leaving()), l.deleteCurrent(), []Step{{Kind: LookAtLeftovers}})
}

// DeleteVMSteps returns the steps that delete the VM, and nothing else: the next deploy
// creates another one.
func DeleteVMSteps(d Decision) []Step {
	l := list{d}
	return down(clearRecord(), l.stop(StopJobs, leaving()), l.deleteCurrent(), []Step{{Kind: LookAtLeftovers}})
}

// Detached returns the plan of a deploy of an instance whose VM bootstrap stop --hard has
// deleted: nothing.
func Detached(seen Decision, name string) Plan {
	p := Plan{Decision: seen}
	p.Stopped, p.Changes = true, []Change{{What: VM, Name: name, Action: Keep, Why: []Reason{{Cause: StaysDetached}}}}
	p.Warnings = []Reason{{Cause: StaysDetached}}
	return p
}

// Detached reports whether nothing is done because bootstrap stop --hard has deleted the VM.
func (d Decision) Detached() bool {
	return slices.ContainsFunc(d.Warnings, func(r Reason) bool { return r.Cause == StaysDetached })
}

// Unsettled returns which results a deploy finds out before it plans again; false: none.
func (d Decision) Unsettled() (Reason, bool) {
	i := slices.IndexFunc(d.Warnings, func(r Reason) bool { return r.Cause == Undetermined })
	if i < 0 {
		return Reason{}, false
	}
	return d.Warnings[i], true
}

// StartSteps returns the steps of bootstrap start.
func StartSteps(d Decision) []Step {
	return down([]Step{{Kind: RecordStarted}}, list{d}.startJobs())
}

// RestartSteps returns the steps of bootstrap restart.
func RestartSteps(d Decision) []Step {
	return down(list{d}.stop(StopJobs, staying()), []Step{{Kind: RecordStarted}}, list{d}.startJobs())
}

// PostDeploySteps returns the step that runs the post-deploy scripts of the jobs that run.
func PostDeploySteps(Decision) []Step {
	return []Step{{Kind: PostDeploy, Of: StartJobs, Calls: []string{"agent run_script"}}}
}

// Previous returns the plan of deploy --previous, on the existing VM; stopped
// jobs stay stopped.
func Previous(seen Decision, group string, stopped bool) Plan {
	p := Plan{Decision: seen}
	p.Stopped, p.Changes = stopped, []Change{
		{What: VM, Name: seen.Current, Action: Keep},
		{What: Jobs, Name: group, Action: Update, Why: []Reason{{Cause: PutBackAsked}}},
	}
	if stopped {
		p.Warnings = []Reason{{Cause: StaysStopped}}
	}
	l := list{p.Decision}
	p.Steps = slices.Concat(
		uploadJobs(), clearRecord(),
		down(l.stop(StopJobs, changing()), applyPrevious(), l.start()),
		[]Step{{Kind: RecordPrevious}})
	return p
}

// DeleteSteps returns the steps that delete an instance. keepDisk keeps the current disk
// as an orphan. ledger is true if a ledger may contain addresses of the instance. whole is
// true if its deployment is deleted, too. orphans are the CIDs of the orphaned disks that
// are deleted.
func DeleteSteps(d Decision, keepDisk, ledger, whole bool, orphans []string) []Step {
	l := list{d}
	var deleteOrphans []Step
	for _, cid := range orphans {
		deleteOrphans = append(deleteOrphans, Step{Kind: DeleteOrphan, Name: cid})
	}
	return slices.Concat(
		clearRecord(), l.stopReplaced(), l.deleteReplaced(),
		l.stop(StopJobs, ending(whole)), l.deleteCurrent(),
		one(ledger, Step{Kind: ReleaseAddress}), l.keepDisks(keepDisk),
		l.deleteDisks(keepDisk), deleteOrphans, []Step{{Kind: DeleteStemcells}, {Kind: LookAtLeftovers}, {Kind: Uninstall}})
}

// LeaveWorkerSteps returns the steps that delete a compilation VM, so that another one
// can be created.
func LeaveWorkerSteps(d Decision) []Step {
	return slices.Concat(clearRecord(), list{d}.deleteCurrent(), []Step{{Kind: LookAtLeftovers}})
}

// RestWorkerSteps returns the steps that delete the VM of EndWorkerSteps, and leave its
// stemcell for the instances of the deployment.
func RestWorkerSteps(d Decision, ledger bool) []Step {
	return slices.Concat(list{d}.deleteCurrent(), one(ledger, Step{Kind: ReleaseAddress}), []Step{{Kind: LookAtLeftovers}})
}

// EndWorkerSteps returns the steps that delete everything of a compilation VM. ledger is true if a ledger may contain addresses of it.
func EndWorkerSteps(d Decision, ledger bool) []Step {
	l := list{d}
	return slices.Concat(l.deleteCurrent(), one(ledger, Step{Kind: ReleaseAddress}),
		[]Step{{Kind: DeleteStemcells}, {Kind: LookAtLeftovers}, {Kind: Uninstall}})
}

// DeleteDiskSteps returns the steps that delete orphaned disks.
func DeleteDiskSteps(cids []string) []Step {
	var steps []Step
	for _, cid := range cids {
		steps = append(steps, Step{Kind: DeleteOrphan, Name: cid})
	}
	return append(steps, Step{Kind: LookAtLeftovers}, Step{Kind: UninstallRest})
}
