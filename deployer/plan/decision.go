package plan

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"bootstrap/agent"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// Facts are what a run has found out about the VM and its disks.
type Facts struct {
	Answers   bool              // the agent of the recorded VM answered
	AgentErr  error             // why not
	Now       agent.State       // what it reported
	Mounted   []string          // CIDs of the disks that the VM has mounted
	HasVM     bool              // the VM exists
	DiskGone  bool              // the CPI says that the current disk does not exist
	DiskAsked bool              // the CPI was asked for the current disk
	Reached   agent.Access      // how the agent was reached
	Served    *x509.Certificate // the agent's own; nil: unknown
}

// Busy reports whether the agent does not answer because it is busy with a
// task.
func (f Facts) Busy() bool {
	_, busy := errors.AsType[*agent.BusyError](f.AgentErr)
	return busy && !f.Answers
}

// WhyLost returns why the VM cannot be used.
func (f Facts) WhyLost() Reason {
	if f.Busy() {
		return Reason{Cause: AgentBusy}
	}
	return Reason{Cause: AgentSilent}
}

// Wishes is what the manifest, its artifacts and the command line ask for, as
// far as a plan compares it.
type Wishes struct {
	Digest    string // of the manifest, as create-env computes it
	Group     string
	Stemcell  string            // name/version
	Light     bool              // the stemcell only names an image of the cloud
	Releases  []state.Release   // without ids
	Used      map[string]bool   // names of the releases that the VM's jobs are from
	Made      map[string]string // digests of what a VM would be created from
	Applied   map[string]string // digests of what would be applied to it
	Disk      *manifest.DiskPool
	Dynamic   bool   // only the VM knows its address
	NoAddress bool   // and it has not reported it yet
	Strategy  string // update.vm_strategy
	NoSwap    string // why a new VM cannot be created beside the old one; empty: it can
	Snapshot  bool
	DNS       bool
	API       int // effective CPI API version; 0: unknown

	Missing    int // packages that would be compiled in place
	MissingNew int // packages that would be compiled on a new VM

	// Places are the places that reasons name in a manifest in the Director's style,
	// by the part of the VM or by the place in create-env's style.
	Places map[string]string
	// Addresses is what happens to the instance's addresses, as package network
	// decides; empty without a cloud config.
	Addresses []network.Change

	SecondDisk SecondDisk // what is recorded about attaching a second disk
	Lost       bool       // the VM went silent when a second disk was attached

	Differs []string // settings of the agent that were seen to differ from the manifest
	Stays   []string // settings of the agent that cannot change on a running VM
	Stuck   string   // why

	Generated []string // names of variables that the deploy will generate
	Notes     []string // warnings of the manifest
	Asked     Asked
}

// SecondDisk is what this machine has recorded about a CPI that could not attach
// a second disk; the zero value: nothing.
type SecondDisk struct {
	When time.Time
	New  bool // it failed on a new VM, too, so that replacing the VM does not help
}

// Asked contains the flags that change a plan; a saved plan contains them, too.
type Asked struct {
	Recreate bool `json:"recreate,omitempty"` // replace the VM though nothing changed
	// CreatedBefore limits Recreate to a VM that was created earlier; zero: to none.
	CreatedBefore time.Time `json:"created_before,omitzero"`
	RecreateDisks bool      `json:"recreate_disks,omitempty"` // migrate to a new disk though nothing changed
	Fix           bool      `json:"fix,omitempty"`            // replace a VM whose agent does not answer
	SkipDrain     bool      `json:"skip_drain,omitempty"`     // stop without pre-stop and drain
	AllowShrink   bool      `json:"allow_shrink,omitempty"`   // migrate to a smaller disk
	KeepOldDisk   bool      `json:"keep_old_disk,omitempty"`  // keep the old disk of a migration as an orphan
	AdoptVM       bool      `json:"adopt_vm,omitempty"`       // accept that the VM was created from this manifest
}

// Decision contains what a deploy changes and why, and the facts that decide
// its steps. It is compared and saved as data.
type Decision struct {
	Changes  []Change `json:"changes"`
	Warnings []Reason `json:"warnings,omitempty"`
	// Compiles is how many packages are compiled while the service is down: on
	// the VM that stays, or on the new one after the old one was deleted.
	Compiles int `json:"compiles,omitempty"`

	Swap     bool    `json:"swap,omitempty"`     // the new VM is created before the old one is deleted
	Beside   bool    `json:"beside,omitempty"`   // the new VM compiles while the old one still serves
	Stopped  bool    `json:"stopped,omitempty"`  // the jobs stay stopped, after bootstrap stop
	Blank    bool    `json:"blank,omitempty"`    // the VM has no spec yet, or has not reported its address
	Silent   bool    `json:"silent,omitempty"`   // the old VM's agent does not answer
	Answers  bool    `json:"answers,omitempty"`  // the agent of the recorded VM does
	HasVM    bool    `json:"has_vm,omitempty"`   // the recorded VM exists
	Current  string  `json:"vm,omitempty"`       // CID of the recorded VM
	AgentID  string  `json:"agent_id,omitempty"` // of the recorded VM, as its agent reports it
	Applied  string  `json:"applied,omitempty"`  // the configuration hash of what the recorded VM runs
	Lost     *Reason `json:"lost,omitempty"`     // why the jobs of the recorded VM cannot be stopped; nil: they can
	Replaced string  `json:"replaced,omitempty"` // CID of a VM that an earlier run has replaced and not deleted

	Snapshots     bool `json:"snapshot,omitempty"` // of the disk, before it is changed
	UseDNS        bool `json:"dns,omitempty"`
	Dynamic       bool `json:"dynamic,omitempty"`
	Address       bool `json:"address,omitempty"` // the address is known before a new VM reports it
	Light         bool `json:"light,omitempty"`
	CompilesAny   bool `json:"compiles_any,omitempty"`
	API           int  `json:"api,omitempty"`
	Fix           bool `json:"fix,omitempty"`
	SkipDrain     bool `json:"skip_drain,omitempty"`
	KeepOldDisk   bool `json:"keep_old_disk,omitempty"`
	Shrinks       bool `json:"shrinks,omitempty"`
	DiskAsked     bool `json:"disk_asked,omitempty"`     // the CPI was asked for the current disk
	DropsStemcell bool `json:"drops_stemcell,omitempty"` // the old VM's stemcell is deleted at the end
	Ledger        bool `json:"ledger,omitempty"`         // the addresses are reserved in the ledger

	Disk      DiskWork `json:"disk"`
	Mounts    int      `json:"mounts,omitempty"`    // disks that the VM has mounted
	Leftovers []string `json:"leftovers,omitempty"` // calls that looking at leftovers may take
}

// DiskWork contains the facts about the persistent disk that decide its step.
type DiskWork struct {
	CID     string `json:"cid,omitempty"`     // of the current one; empty: there is none
	Mounted bool   `json:"mounted,omitempty"` // on the VM that stays
	// Begun is the CID of the disk that an interrupted run has mounted as the
	// target of a migration; empty: there is none.
	Begun string `json:"begun,omitempty"`
	// Method is the CPI's method that may change the disk itself; empty: it is
	// not asked.
	Method string `json:"method,omitempty"`
}

// on returns the action on a thing.
func (d Decision) on(what string) Action {
	for _, c := range d.Changes {
		if c.What == what && c.Action != Remove {
			return c.Action
		}
	}
	return Keep
}

// On returns the action on a thing: one of the constants VM, Disk and so on.
func (d Decision) On(what string) Action { return d.on(what) }

// Nothing reports whether there is nothing to do.
func (d Decision) Nothing() bool {
	return !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Action != Keep })
}

// Destroys lists, in words, what the plan would delete or replace, for the
// question to a person; nil: nothing.
func (d Decision) Destroys() []string {
	var list []string
	for _, c := range d.Changes {
		switch {
		case c.What == VM && c.Action == Replace:
			list = append(list, fmt.Sprintf("VM %s is replaced", c.Name))
		case c.What == Disk && c.Action == Migrate:
			list = append(list, fmt.Sprintf("disk %s is replaced by a new one with its content", c.Name))
		case c.What == Disk && c.Action == Orphan:
			list = append(list, fmt.Sprintf("disk %s is removed from the VM and kept as an orphan", c.Name))
		case c.What == Packages:
			list = append(list, c.What+": "+Words(c.Why))
		}
	}
	return list
}

// NewVM reports whether a new VM is created.
func (d Decision) NewVM() bool { a := d.on(VM); return a == Create || a == Replace }

// diskWork reports whether anything is done to the persistent disk.
func (d Decision) diskWork() bool { return d.on(Disk) != Keep }

// Applies reports whether jobs and packages are applied to the VM.
func (d Decision) Applies() bool { return d.NewVM() || d.on(Jobs) == Update }

// inPlace reports whether the VM stays and its jobs are stopped for a while.
func (d Decision) inPlace() bool {
	return !d.NewVM() && (d.on(Jobs) == Update || d.diskWork())
}

// stops reports whether jobs that may run are stopped.
func (d Decision) stops() bool { return d.on(VM) == Replace || d.inPlace() }

// Starts reports whether jobs are started.
func (d Decision) Starts() bool {
	return !d.Stopped && (d.NewVM() || d.inPlace() || d.on(Jobs) == Start)
}

// Touches reports whether the deployment differs from the recorded one while
// the plan runs.
func (d Decision) Touches() bool { return d.NewVM() || d.inPlace() }

// updates reports whether jobs are applied to an existing VM, and prepares
// whether its agent fetches them while the old ones run.
func (d Decision) updates() bool  { return !d.NewVM() && d.on(Jobs) == Update }
func (d Decision) prepares() bool { return d.updates() && d.Compiles == 0 && !d.Blank && !d.Beside }

func (d Decision) sendsDNS() bool {
	return d.UseDNS && (d.Touches() || d.on(DNS) == Update) && !d.Stopped
}

func (d Decision) snapshots() bool { return d.Snapshots && d.stops() && !d.Silent }

// Records reports whether the manifest is recorded as applied afterwards.
func (d Decision) Records() bool {
	return d.Touches() || d.on(State) == Note || d.on(Tags) == Update || d.on(Agent) == Update || d.on(DNS) == Update
}

// needsCPI reports whether the CPI is called on a VM that stays: it is connected
// while the service is up.
func (d Decision) needsCPI() bool {
	return d.diskWork() || d.on(Tags) == Update || d.snapshots() || d.removes() || d.Replaced != ""
}

// reserves reports whether the ledger gets reservations before anything else, and
// rebinds whether any reservation changes on a VM that stays.
func (d Decision) reserves() bool { return d.addresses(Reserve, Note) }
func (d Decision) rebinds() bool  { return d.addresses(Reserve, Note, Release, Hold) }

func (d Decision) addresses(actions ...Action) bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.What == Address && slices.Contains(actions, c.Action) })
}

// removes reports whether something unused is deleted.
func (d Decision) removes() bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Action == Remove })
}

// Seen returns a decision that changes nothing, with what steps need to know of
// the VM and of the command line.
func Seen(st state.State, f Facts, asked Asked) Decision {
	d := Decision{
		Current: st.CurrentVMCID, Answers: f.Answers, HasVM: f.HasVM, Mounts: len(f.Mounted), DiskAsked: f.DiskAsked,
		AgentID: f.Now.AgentID, Applied: f.Now.ConfigurationHash,
		Fix: asked.Fix, SkipDrain: asked.SkipDrain, KeepOldDisk: asked.KeepOldDisk,
	}
	if !f.Answers {
		why := f.WhyLost()
		d.Lost = &why
	}
	return d
}

// Decide decides what a deploy does, from wishes, state and facts. The error is
// an *AgentSilentError for a VM that exists and does not answer, a
// *DiskGoneError, a *ShrinkError or a *NoSecondDiskError.
func Decide(w Wishes, st state.State, f Facts) (Decision, error) {
	d := Seen(st, f, w.Asked)
	d.Snapshots, d.UseDNS = w.Snapshot && st.CurrentVMCID != "" && st.CurrentDiskID != "", w.DNS
	d.Dynamic, d.Address, d.Light, d.API = w.Dynamic, !w.NoAddress, w.Light, w.API
	d.Leftovers = leftoverCalls(st)
	if st.Own.Swap != nil {
		d.Replaced = st.Own.Swap.CID
	}
	if f.DiskGone {
		return d, &DiskGoneError{CID: st.Disk().CID}
	}
	vm, err := d.decideVM(w, st, f)
	if err != nil {
		return d, err
	}
	disk, err := decideDisk(w, st, f, vm.Action)
	if err != nil {
		return d, err
	}
	if vm.Action == Keep {
		if why, must := diskReplaces(w, st, f, disk); must {
			vm.Action, vm.Why = Replace, []Reason{why}
			if disk, err = decideDisk(w, st, f, Replace); err != nil {
				return d, err
			}
		}
	}
	jobs := decideJobs(w, st, f, vm.Action)
	if vm.Action == Keep && w.Strategy != "" && st.CurrentManifestSHA != "" && (jobs.Action == Update || disk.Action != Keep) {
		vm.Action, vm.Why = Replace, append([]Reason{{Cause: Strategy, To: w.Strategy}}, jobs.Why...)
		if disk.Action != Keep {
			vm.Why = append(vm.Why, Reason{Cause: DiskChanges, Why: disk.Why})
		}
		if disk, err = decideDisk(w, st, f, Replace); err != nil {
			return d, err
		}
		jobs = decideJobs(w, st, f, Replace)
	}
	d.Swap = vm.Action == Replace && w.Strategy == "create-swap-delete" && w.NoSwap == "" && f.Answers && st.Own.Swap == nil
	d.Stopped = st.Own.Stopped
	d.Blank = vm.Action == Keep && (f.Now.Deployment == "" || w.NoAddress)
	d.Shrinks = disk.Action == Migrate && w.Disk.Size < st.Disk().Size
	d.Disk = diskWork(w, st, f, vm.Action, disk.Action)
	d.list(w, st, f, vm, disk, jobs)
	d.warn(w, st, f, vm, disk)
	return d, nil
}

// decideVM decides the action on the VM, as if disk and jobs did not change.
func (d *Decision) decideVM(w Wishes, st state.State, f Facts) (Change, error) {
	vm := Change{What: VM, Name: st.CurrentVMCID, Action: Keep}
	because := func(action Action, why ...Reason) { vm.Action, vm.Why = action, why }
	switch {
	case st.CurrentVMCID == "":
		vm.Name = w.Group + "/0"
		because(Create, Reason{Cause: NoVM})
	case !f.HasVM:
		because(Create, Reason{Cause: VMGone})
	case f.Answers:
		if why := replaceReasons(w, st); len(why) > 0 {
			because(Replace, why...)
		}
	case st.Own.AgentID != "" && !st.Own.Reached:
		// A run was interrupted before anything was applied to it, or while it
		// was deleted: no job has to be stopped.
		because(Replace, Reason{Cause: NeverUsed})
	case w.Lost:
		because(Replace, Reason{Cause: LostToDisk})
	case !w.Asked.Fix:
		return vm, &AgentSilentError{VM: st.CurrentVMCID, Err: f.AgentErr}
	default:
		because(Replace, f.WhyLost())
	}
	d.Silent = vm.Action == Replace && !f.Answers
	return vm, nil
}

// list adds all changes, and the things that are kept.
func (d *Decision) list(w Wishes, st state.State, f Facts, vm, disk, jobs Change) {
	sc := Change{What: Stemcell, Name: w.Stemcell, Action: Keep}
	if (vm.Action == Create || vm.Action == Replace) && !uploaded(st, w.Stemcell) {
		sc.Action, sc.Why = Create, []Reason{{Cause: NotUploaded}}
		if old := st.Stemcell(); old != nil {
			sc.Why = []Reason{{Cause: StemcellReplaced, Subject: old.Name + "/" + old.Version}}
		}
	}
	if old := st.Stemcell(); old != nil && (vm.Action == Create || vm.Action == Replace) {
		d.DropsStemcell = old.Name+"/"+old.Version != w.Stemcell
	}
	d.Changes = append(d.Changes, sc, vm)
	if w.Disk != nil || disk.Action != Keep {
		d.Changes = append(d.Changes, disk)
	}
	d.Changes = append(d.Changes, jobs)
	d.compile(w, st, f, vm, jobs)
	if vm.Action == Keep {
		d.addSmall(w, st)
	}
	d.addAddresses(w)
	for _, x := range unused(st) {
		switch x.Action = Remove; {
		case x.What == Disk && x.Name == d.Disk.Begun, x.What == Disk && disk.Action == Migrate && vm.Action == Keep && slices.Contains(f.Mounted, x.Name):
			continue // the resumed migration uses this disk or deletes it afterwards
		case x.What == Disk && w.Asked.KeepOldDisk:
			x = Change{What: State, Action: Note, Why: []Reason{{Cause: DiskKept, Subject: x.Name}}}
		}
		d.Changes = append(d.Changes, x)
	}
	if !d.Records() && (st.CurrentManifestSHA != w.Digest || !sameParts(st.Own.Made, w.MadeOf(st, vm.Action)) || !sameApplied(st.Own.Applied, w.Applied) || len(releaseChanges(w.Releases, st.Releases, nil)) > 0) {
		d.Changes = append(d.Changes, Change{What: State, Action: Note, Why: []Reason{recordReason(w, st)}})
	}
	if len(w.Generated) > 0 {
		d.Changes = append(d.Changes, Change{What: Variables, Action: Create, Why: []Reason{{Cause: Generated, Names: w.Generated}}})
	}
}

// addAddresses adds what happens to the addresses. Those that the IaaS chooses are
// no change.
func (d *Decision) addAddresses(w Wishes) {
	for _, a := range w.Addresses {
		if a.Action == network.Ask {
			continue
		}
		d.Ledger = true
		c := Change{What: Address, Name: nameOf(a.Reservation), Action: addressAction(a)}
		if c.Action != Keep {
			c.Why = []Reason{{Cause: AddressRule, Subject: string(a.Reason.Kind), From: a.Reason.From, To: a.Reason.To}}
		}
		d.Changes = append(d.Changes, c)
	}
}

// nameOf returns the name of an address in a plan: 10.0.0.5 of default.
func nameOf(r network.Reservation) string { return r.Address() + " of " + r.Network }

func addressAction(a network.Change) Action {
	switch a.Action {
	case network.Reserve:
		return Reserve
	case network.Release:
		return Release
	case network.Hold, network.Orphan:
		return Hold
	}
	if a.Before != nil {
		return Note
	}
	return Keep
}

// warn adds what a person should know beside the changes.
func (d *Decision) warn(w Wishes, st state.State, f Facts, vm, disk Change) {
	add := func(r Reason) { d.Warnings = append(d.Warnings, r) }
	if w.Strategy == "create-swap-delete" && vm.Action == Replace && !d.Swap && w.NoSwap != "" {
		add(Reason{Cause: NoSwap, To: w.NoSwap})
	}
	switch {
	case d.Shrinks:
		add(Reason{Cause: Shrinks, Subject: disk.Name, From: strconv.Itoa(st.Disk().Size), To: strconv.Itoa(w.Disk.Size)})
	case disk.Action == Migrate && d.Disk.Method == "":
		add(Reason{Cause: DataMoves, Subject: disk.Name, Why: disk.Why})
	case disk.Action == Migrate:
		add(Reason{Cause: ResizeOrMove, Subject: disk.Name, Why: disk.Why})
	}
	if disk.Action == Create {
		for _, o := range st.Own.Orphans {
			add(Reason{Cause: OrphanStays, Subject: o.CID, To: o.Why})
		}
	}
	if vm.Action == Replace && !d.Swap && f.Answers && asksOtherVM(w, st) {
		add(Reason{Cause: NoWayBack, Subject: vm.Name})
	}
	if d.Silent && f.HasVM && st.Own.Reached {
		add(Reason{Cause: NotStopped, Subject: st.CurrentVMCID, Why: []Reason{f.WhyLost()}})
	}
	if d.Stopped {
		add(Reason{Cause: StaysStopped})
	}
	if _, stays := w.agentWork(st); len(stays) > 0 && vm.Action == Keep {
		add(Reason{Cause: SettingsStay, Names: stays, To: w.Stuck})
	}
	for _, text := range w.Notes {
		add(Reason{Cause: Warned, To: text})
	}
}

// compile adds the packages that are compiled while the service is down. A VM
// that stays must stop its jobs first, because its agent removes their packages
// when it compiles. A new VM beside the old one compiles before the old one
// stops.
func (d *Decision) compile(w Wishes, st state.State, f Facts, vm, jobs Change) {
	var why Cause
	switch {
	case vm.Action == Keep && jobs.Action == Update && w.Missing > 0 && st.Own.Swap != nil && len(f.Now.Job.Templates) == 0:
		// An earlier run was interrupted, or failed, before it put a job on the new VM.
		d.Beside, d.CompilesAny = true, true
		return
	case vm.Action == Keep && jobs.Action == Update && w.Missing > 0:
		d.Compiles, why = w.Missing, CompilesInPlace
	case vm.Action == Replace && !d.Swap && f.Answers && w.MissingNew > 0:
		d.Compiles, why = w.MissingNew, CompilesOnNew
	default:
		d.CompilesAny = vm.Action != Keep && w.MissingNew > 0
		return
	}
	d.CompilesAny = true
	d.Changes = append(d.Changes, Change{What: Packages, Action: Create, Why: []Reason{{Cause: why, Count: d.Compiles}}})
}

// addSmall adds the changes that need no downtime on a VM that stays.
func (d *Decision) addSmall(w Wishes, st state.State) {
	switch {
	case len(st.Own.Applied) > 0 && st.Own.Applied[PartTags] != w.Applied[PartTags]:
		d.Changes = append(d.Changes, Change{What: Tags, Action: Update, Why: []Reason{{Cause: TagsChanged}}})
	case len(st.Own.Applied) == 0 && st.Own.AgentID != "":
		// The run may have been killed before it tagged the VM.
		d.Changes = append(d.Changes, Change{What: Tags, Action: Update, Why: []Reason{{Cause: TagsUnfinished}}})
	}
	if list, _ := w.agentWork(st); len(list) > 0 {
		d.Changes = append(d.Changes, Change{What: Agent, Action: Update, Why: []Reason{{Cause: SettingsChanged, Names: list}}})
	}
	if w.DNS && (st.Own.DNSVersion == 0 || d.Touches() && st.Own.Applied[PartAddress] != w.Applied[PartAddress]) {
		d.Changes = append(d.Changes, Change{What: DNS, Action: Update, Why: []Reason{{Cause: NoDNSRecords}}})
	}
}

// decideJobs decides the action on the jobs.
func decideJobs(w Wishes, st state.State, f Facts, vm Action) Change {
	c := Change{What: Jobs, Name: w.Group, Action: Keep}
	if vm == Create || vm == Replace {
		c.Action, c.Why = Create, []Reason{{Cause: NewVM}}
		return c
	}
	c.Why = jobReasons(w, st, f)
	switch {
	case len(c.Why) > 0:
		c.Action = Update
	case st.Own.Stopped:
	case !f.running():
		c.Action, c.Why = Start, f.unwell()
		if f.Now.JobState == "failing" {
			// A failing job must be stopped with its scripts before it is started again.
			c.Action = Update
		}
	}
	return c
}

// running reports whether all jobs run.
func (f Facts) running() bool { return f.Now.JobState == "running" && len(NotRunning(f.Now)) == 0 }

func (f Facts) unwell() []Reason {
	if list := NotRunning(f.Now); len(list) > 0 {
		return list
	}
	return []Reason{{Cause: JobsState, To: f.Now.JobState}}
}

// NotRunning lists the processes that do not run, with their states.
func NotRunning(now agent.State) []Reason {
	var list []Reason
	for _, p := range now.Processes {
		if p.State != "running" {
			list = append(list, Reason{Cause: ProcessState, Subject: p.Name, To: p.State})
		}
	}
	return list
}

func uploaded(st state.State, stemcell string) bool {
	return slices.ContainsFunc(st.Stemcells, func(s state.Stemcell) bool { return s.Name+"/"+s.Version == stemcell })
}

// unused lists the things that an earlier run left: the state owns them and
// nothing uses them.
func unused(st state.State) []Change {
	var list []Change
	if old := st.Own.Swap; old != nil {
		list = append(list, Change{What: VM, Name: old.CID, Why: []Reason{{Cause: VMReplaced}}})
	}
	for _, d := range st.Disks {
		if d.ID != st.CurrentDiskID {
			list = append(list, Change{What: Disk, Name: d.CID, Why: []Reason{{Cause: Unused}}})
		}
	}
	for _, sc := range st.Stemcells {
		if sc.ID != st.CurrentStemcellID && (st.Own.Swap == nil || sc.ID != st.Own.Swap.StemcellID) {
			list = append(list, Change{What: Stemcell, Name: sc.CID, Why: []Reason{{Cause: Unused}}})
		}
	}
	return list
}
