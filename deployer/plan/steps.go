package plan

import (
	"slices"

	"bootstrap/state"
)

// Kind is the kind of a step; its text is the name that people see.
type Kind string

// The kinds of steps. A step does the same in every plan: the list contains
// only the steps that are needed.
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

	ClearRecord  Kind = "mark deployment unfinished" // the point of no return
	CreateVM     Kind = "create vm"
	BindAddress  Kind = "bind addresses to the vm" // and release those that no VM has
	WaitForAgent Kind = "wait for agent"
	InitialApply Kind = "initial apply"
	RenderAgain  Kind = "render jobs again" // with the address that the VM reported
	Compile      Kind = "compile"
	StopOld      Kind = "stop old vm" // the VM that the current one replaces
	StopJobs     Kind = "stop jobs"
	Snapshot     Kind = "snapshot"
	DeleteVM     Kind = "delete vm"
	CreateDisk   Kind = "create disk"
	AttachDisk   Kind = "attach disk"
	ChangeDisk   Kind = "change disk" // the CPI changes it, or it is migrated
	MigrateDisk  Kind = "migrate disk"
	OrphanDisk   Kind = "orphan disk"
	Apply        Kind = "apply"
	StartJobs    Kind = "start jobs"
	DeleteOld    Kind = "delete old vm" // and release its addresses

	UpdateAgent Kind = "update agent"
	UpdateTags  Kind = "update tags"
	Record      Kind = "record deployment"
	SendDNS     Kind = "send dns"
	CleanUp     Kind = "clean up"

	ApplyPrevious   Kind = "apply previous jobs"
	RecordPrevious  Kind = "record previous deployment"
	RecordStopped   Kind = "record that the jobs are stopped"
	RecordStarted   Kind = "record that the jobs run"
	KeepDisk        Kind = "keep disk" // as an orphan
	DeleteDisks     Kind = "delete disks"
	DeleteStemcells Kind = "delete stemcells"
	ReleaseAddress  Kind = "release addresses" // all of the deployment
	DeleteOrphan    Kind = "delete orphaned disk"
	LookAtLeftovers Kind = "look at leftovers"
	Uninstall       Kind = "uninstall CPI"
	UninstallRest   Kind = "uninstall CPI if unused"
)

// Words returns the kind as people read it in a plan.
func (k Kind) Words() string {
	switch k {
	case Prepare:
		return "send the new jobs to the agent"
	case InitialApply:
		return "set up the new vm"
	}
	return string(k)
}

// Quiet reports whether a step of that kind changes only the record of the
// deployment, before the others change the VM: it is not listed for people.
func (k Kind) Quiet() bool { return k == ClearRecord }

// Step is one step of a run.
type Step struct {
	Kind Kind   `json:"step"`
	Name string `json:"name,omitempty"` // CID of its VM or disk, if known
	Down bool   `json:"down,omitempty"` // the service is down while it runs
	// Calls are the methods of the CPI and the agent that the step calls: "cpi
	// create_vm", "agent stop". Maybe are those that depend on the features of
	// both.
	Calls []string `json:"calls,omitempty"`
	Maybe []string `json:"maybe,omitempty"`
	// Outcomes are the possible results, if only the CPI can decide.
	Outcomes []string `json:"outcomes,omitempty"`

	Disk *DiskWork `json:"disk,omitempty"` // for the steps of the disk
	Next *Next     `json:"next,omitempty"` // for the steps that stop jobs
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

// Next is what happens after the jobs are stopped, each "keep" or "delete", in
// the form in which the Director passes it to the scripts of jobs.
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
func ending() *Next   { return &Next{VM: "delete", Instance: "delete", Deployment: "delete"} }

// Looks returns the step that has found the facts, with its calls. byCPI says
// that it asked the CPI, too.
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

// Steps returns the steps of a decision in order: one of four lists.
func Steps(d Decision) []Step {
	switch {
	case d.Nothing():
		return nil
	case d.on(VM) == Create:
		return create(d)
	case d.Swap:
		return swap(d)
	case d.on(VM) == Replace:
		return replace(d)
	}
	return inPlace(d)
}

// create returns the steps that create the VM. A recorded VM that does not
// exist any more is deleted first, because the CPI may still have parts of it.
func create(d Decision) []Step {
	l := list{d: d}
	l.reserve()
	l.add(l.checkCloud(), l.uploadStemcell())
	l.addIf(d.Address, Step{Kind: RenderJobs})
	l.add(Step{Kind: ClearRecord})
	l.replaced()
	l.addIf(d.Current != "", Step{Kind: DeleteVM, Name: d.Current, Calls: []string{"cpi delete_vm"}})
	l.newVM()
	l.finish()
	return l.steps
}

// replace returns the steps that delete the VM and create another one.
func replace(d Decision) []Step {
	l := list{d: d, down: true}
	l.reserve()
	l.add(l.checkCloud(), l.uploadStemcell())
	l.addIf(d.Address, Step{Kind: RenderJobs})
	l.add(Step{Kind: ClearRecord})
	l.replaced()
	l.add(l.stop(StopJobs, d.Current, leaving()))
	l.snapshot()
	l.addDown(Step{Kind: DeleteVM, Name: d.Current, Calls: []string{"cpi delete_vm"}})
	l.newVM()
	l.finish()
	return l.steps
}

// newVM adds the steps that create a VM, attach the disk and apply the jobs.
func (l *list) newVM() {
	d := l.d
	l.addDown(Step{Kind: CreateVM, Calls: []string{"cpi create_vm", "cpi set_vm_metadata"}})
	l.bind(l.down)
	l.addDown(Step{Kind: WaitForAgent, Calls: []string{"agent ping", "agent get_state"}})
	l.disk()
	l.addDown(l.initialApply())
	l.addIf(d.Dynamic, Step{Kind: RenderAgain, Down: l.down})
	l.addDown(l.compile(), Step{Kind: Apply, Calls: []string{"agent apply"}})
	l.start()
}

// swap returns the steps that create the new VM while the old one serves.
func swap(d Decision) []Step {
	l := list{d: d, down: true}
	l.reserve()
	l.add(l.checkCloud(), l.uploadStemcell())
	l.addIf(d.Address, Step{Kind: RenderJobs})
	l.add(Step{Kind: ClearRecord}, Step{Kind: CreateVM, Calls: []string{"cpi create_vm", "cpi set_vm_metadata"}})
	l.bind(false)
	l.add(Step{Kind: WaitForAgent, Calls: []string{"agent ping", "agent get_state"}},
		Step{Kind: InitialApply, Calls: []string{"agent apply"}, Maybe: []string{"agent get_state"}})
	l.addIf(d.Dynamic, Step{Kind: RenderAgain})
	l.add(l.compile(), Step{Kind: UploadJobs}, l.stop(StopOld, d.Current, leaving()))
	l.snapshot()
	l.disk()
	l.addDown(Step{Kind: Apply, Calls: []string{"agent apply"}})
	l.start()
	l.add(Step{Kind: DeleteOld, Name: d.Current, Calls: []string{"cpi delete_vm"}})
	l.finish()
	return l.steps
}

// inPlace returns the steps that change an existing VM.
func inPlace(d Decision) []Step {
	l := list{d: d, down: d.stops()}
	l.reserve()
	switch {
	case d.diskWork():
		l.add(l.checkCloud())
	case d.needsCPI():
		l.add(Step{Kind: ConnectCPI, Calls: []string{"cpi info"}})
	}
	if d.updates() {
		l.addIf(d.Address, Step{Kind: RenderJobs})
		l.add(Step{Kind: Upload})
	}
	l.addIf(d.prepares(), Step{Kind: Prepare, Calls: []string{"agent prepare"}})
	l.addIf(d.Touches(), Step{Kind: ClearRecord})
	l.addIf(d.Beside, l.compile())
	l.replaced()
	if d.stops() {
		next := staying()
		if d.updates() {
			next = changing()
		}
		l.add(l.stop(StopJobs, d.Current, next))
	}
	l.snapshot()
	l.disk()
	if d.updates() {
		if d.Blank {
			l.addDown(l.initialApply())
			l.addIf(d.Dynamic, Step{Kind: RenderAgain, Down: true})
		}
		if !d.prepares() && !d.Beside {
			l.addDown(l.compile())
		}
		l.addDown(Step{Kind: Apply, Calls: []string{"agent apply"}})
	}
	l.start()
	l.finish()
	return l.steps
}

// StopSteps returns the steps of bootstrap stop.
func StopSteps() []Step {
	return []Step{{Kind: StopJobs, Down: true, Next: staying()}, {Kind: RecordStopped, Down: true}}
}

// StartSteps returns the steps of bootstrap start.
func StartSteps() []Step {
	return []Step{{Kind: RecordStarted, Down: true}, {Kind: StartJobs, Down: true}}
}

// RestartSteps returns the steps of bootstrap restart.
func RestartSteps() []Step {
	return []Step{{Kind: StopJobs, Down: true, Next: staying()}, {Kind: RecordStarted, Down: true}, {Kind: StartJobs, Down: true}}
}

// Previous returns the plan of deploy --previous, on the existing VM; stopped
// jobs stay stopped.
func Previous(seen Decision, group string, stopped bool) Plan {
	p := Plan{Decision: seen}
	p.Stopped, p.Changes = stopped, []Change{
		{What: VM, Name: seen.Current, Action: Keep},
		{What: Jobs, Name: group, Action: Update, Why: []Reason{{Cause: PutBackAsked}}},
	}
	p.Steps = []Step{
		{Kind: UploadJobs}, {Kind: ClearRecord},
		{Kind: StopJobs, Down: true, Next: changing()}, {Kind: ApplyPrevious, Down: true},
	}
	if stopped {
		p.Warnings = []Reason{{Cause: StaysStopped}}
	} else {
		p.Steps = append(p.Steps, Step{Kind: StartJobs, Down: true})
	}
	p.Steps = append(p.Steps, Step{Kind: RecordPrevious})
	return p
}

// DeleteSteps returns the steps that delete a deployment. replaced is the CID
// of a VM that an earlier run has replaced but not deleted; empty: there is
// none. keepDisk keeps the current disk as an orphan. ledger is true if a ledger
// may contain addresses of the deployment.
func DeleteSteps(replaced string, keepDisk, ledger bool) []Step {
	list := []Step{{Kind: ClearRecord}}
	if replaced != "" {
		list = append(list, Step{Kind: StopOld, Name: replaced, Next: leaving()}, Step{Kind: DeleteOld, Name: replaced})
	}
	list = append(list, Step{Kind: StopJobs, Next: ending()}, Step{Kind: DeleteVM})
	if ledger {
		list = append(list, Step{Kind: ReleaseAddress})
	}
	if keepDisk {
		list = append(list, Step{Kind: KeepDisk})
	}
	return append(list, Step{Kind: DeleteDisks}, Step{Kind: DeleteStemcells}, Step{Kind: LookAtLeftovers}, Step{Kind: Uninstall})
}

// DeleteDiskSteps returns the steps that delete an orphaned disk.
func DeleteDiskSteps(cid string) []Step {
	return []Step{{Kind: DeleteOrphan, Name: cid}, {Kind: LookAtLeftovers}, {Kind: UninstallRest}}
}
