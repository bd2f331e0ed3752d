package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bootstrap/network"
	"bootstrap/state"
)

// Seen returns a decision without changes. It has the facts and options that steps need.
// The jobs may have scripts of every kind.
func Seen(st state.State, f Facts, asked Asked) Decision {
	d := Decision{
		Current: st.CurrentVMCID, Answers: f.Answers, HasVM: f.HasVM, Mounted: withoutNamed(st, f.Mounted), DiskAsked: f.DiskAsked,
		AgentID: cmp.Or(st.Own.AgentID, f.Now.AgentID), Applied: f.Now.ConfigurationHash,
		Fix: asked.Fix, SkipDrain: asked.SkipDrain, KeepOldDisk: asked.KeepOldDisk, CreateOnly: asked.CreateOnly, NoWait: asked.NoWait,
		Disk: DiskWork{CID: CurrentDisk(st)}, Named: keepNamed(st), OldScripts: stopScripts(), NewScripts: startScripts(), ReplacedAnswers: f.OldAnswers,
	}
	d.Rests = st.Own.Stopped && f.Answers && Rests(f.Now)
	if have := st.Disk(); have != nil && f.Now.PersistentDisk > 0 {
		d.DiskSize = have.Size
	}
	if st.Own.Swap != nil {
		d.Replaced = st.Own.Swap.CID
	}
	if !f.Answers {
		why := f.WhyLost()
		d.Lost = &why
	}
	return d
}

// Choice is the choice of a deploy for VM, disk and jobs, with reasons. It needs only the
// agent and the state; it decides which other facts are needed for a Decision.
type Choice struct {
	VM, Disk, Jobs Change
	Named          []Change

	begun Decision // the decision so far, without changes and warnings
	w     Wishes
	st    state.State
	f     Facts
}

// NewVM reports whether a new VM is created.
func (c *Choice) NewVM() bool { return c.VM.Action == Create || c.VM.Action == Replace }

// NewDisk reports whether a persistent disk is created, or may be.
func (c *Choice) NewDisk() bool {
	return c.Disk.Action == Create || c.Disk.Action == Migrate ||
		slices.ContainsFunc(c.Named, func(n Change) bool { return n.Action == Create || n.Action == Replace })
}

// Touches reports whether the recorded state is out of date while the plan runs.
func (c *Choice) Touches() bool {
	return c.NewVM() || c.Jobs.Action == Update || c.Disk.Action != Keep || namedChanges(c.begun.Named)
}

// Decide makes the choice, from wishes, state and facts. The error is an
// *AgentSilentError for an existing VM that does not answer, a *DiskGoneError, a
// *ShrinkError, a *NoSecondDiskError or a *DiskZoneError.
func Decide(w Wishes, st state.State, f Facts) (*Choice, error) {
	d := Seen(st, f, w.Asked)
	d.Snapshots, d.UseDNS = w.Snapshot && st.CurrentVMCID != "" && len(d.attachedCIDs()) > 0, w.DNS && !w.DNSFirst
	d.DNSFirst = w.DNS && w.DNSFirst
	d.Dynamic, d.Address, d.Light, d.API = w.Dynamic, !w.NoAddress, w.Light, w.API
	d.Leftovers = leftoverCalls(st)
	if f.DiskGone {
		return nil, &DiskGoneError{CID: st.Disk().CID}
	}
	vm, err := d.decideVM(w, st, f)
	if err != nil {
		return nil, err
	}
	disk, err := decideDisk(w, st, f, vm.Action)
	if err != nil {
		return nil, err
	}
	named, namedWhy := decideNamed(w, st, vm.Action)
	if vm.Action == Keep {
		if why, must := diskReplaces(w, st, f, disk, named); must {
			vm.Action, vm.Why = Replace, []Reason{why}
			if disk, err = decideDisk(w, st, f, Replace); err != nil {
				return nil, err
			}
		}
	}
	jobs := decideJobs(w, st, f, vm.Action)
	if vm.Action == Keep && w.Strategy != "" && st.CurrentManifestSHA != "" && (jobs.Action == Update || disk.Action != Keep || namedChanges(named)) {
		vm.Action, vm.Why = Replace, append([]Reason{{Cause: Strategy, To: w.Strategy}}, jobs.Why...)
		if disk.Action != Keep {
			vm.Why = append(vm.Why, Reason{Cause: DiskChanges, Why: disk.Why})
		}
		if disk, err = decideDisk(w, st, f, Replace); err != nil {
			return nil, err
		}
		jobs = decideJobs(w, st, f, Replace)
	}
	if vm.Action == Replace {
		named, namedWhy = decideNamed(w, st, vm.Action)
	}
	if err := refuseZone(w, st, vm.Action); err != nil {
		return nil, err
	}
	d.Named = named
	d.Stopped = st.Own.Stopped && !st.Detached()
	d.Blank = vm.Action == Keep && (f.Now.Deployment == "" || w.NoAddress)
	d.Shrinks = disk.Action == Migrate && w.Disk.Size < st.Disk().Size
	d.Disk, d.DiskSize = diskWork(w, st, f, vm.Action, disk.Action), 0
	if w.Disk != nil && w.Director {
		d.DiskSize = w.Disk.Size
	}
	return &Choice{VM: vm, Disk: disk, Named: namedWhy, Jobs: jobs, begun: d, w: w, st: st, f: f}, nil
}

// Decision returns the complete decision.
func (c *Choice) Decision(x Details) Decision {
	d := c.begun
	d.Swap = c.VM.Action == Replace && c.w.Strategy == "create-swap-delete" && x.NoSwap == "" && c.f.Answers && c.st.Own.Swap == nil
	d.OldScripts, d.NewScripts, d.Checks = x.OldScripts, x.NewScripts, x.Checks
	if c.w.Asked.SkipPostDeploy {
		d.NewScripts = slices.DeleteFunc(slices.Clone(d.NewScripts), func(name string) bool { return name == string(PostDeploy) })
	}
	d.list(c, x)
	d.warn(c, x)
	return d
}

// decideVM decides what to do with the VM, without regard to disk and jobs.
func (d *Decision) decideVM(w Wishes, st state.State, f Facts) (Change, error) {
	vm := Change{What: VM, Name: st.CurrentVMCID, Action: Keep}
	because := func(action Action, why ...Reason) { vm.Action, vm.Why = action, why }
	switch {
	case st.CurrentVMCID == "":
		vm.Name = w.Group + "/" + strconv.Itoa(w.Index)
		because(Create, Reason{Cause: NoVM})
	case !f.HasVM:
		because(Create, Reason{Cause: VMGone})
	case f.Answers:
		if why := replaceReasons(w, st); len(why) > 0 {
			because(Replace, why...)
		}
	case st.Own.AgentID != "" && !st.Own.Reached:
		// A run was interrupted before jobs were applied to this VM, or while it was
		// deleted: no job has to be stopped.
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

// list adds all changes, and what is kept.
func (d *Decision) list(c *Choice, x Details) {
	d.Changes = append(d.Changes, d.stemcell(c), withReasons(c.VM, Create, x.Machine, x.Limits, x.Network))
	if c.w.Disk != nil || c.Disk.Action != Keep {
		d.Changes = append(d.Changes, withReasons(c.Disk, Migrate, x.DiskLimit))
	}
	for _, n := range c.Named {
		d.Changes = append(d.Changes, withReasons(n, Create, x.DiskLimit))
	}
	d.Changes = append(d.Changes, c.Jobs)
	d.compile(c, x)
	if c.VM.Action == Keep {
		d.addSmall(c.w, c.st)
	}
	d.addAddresses(x.Addresses)
	d.addUnused(c)
	d.addRecords(c)
}

// stemcell returns the change of the stemcell.
func (d *Decision) stemcell(c *Choice) Change {
	sc, old := Change{What: Stemcell, Name: c.w.Stemcell, Action: Keep}, c.st.Stemcell()
	if !c.NewVM() {
		return sc
	}
	d.DropsStemcell = old != nil && old.Name+"/"+old.Version != c.w.Stemcell
	if !uploaded(c.st, c.w.Stemcell) {
		sc.Action, sc.Why = Create, []Reason{{Cause: NotUploaded}}
		if old != nil {
			sc.Why = []Reason{{Cause: StemcellReplaced, Subject: old.Name + "/" + old.Version}}
		}
	}
	return sc
}

// withReasons adds facts about a new object to its reasons, if the change creates or
// replaces it, or has the other action, which creates one, too.
func withReasons(c Change, other Action, facts ...Reason) Change {
	if c.Action != Create && c.Action != Replace && c.Action != other {
		return c
	}
	c.Why = slices.Clone(c.Why)
	for _, of := range facts {
		if of.Cause != "" {
			c.Why = append(c.Why, of)
		}
	}
	return c
}

// addUnused adds what the state owns and nothing uses.
func (d *Decision) addUnused(c *Choice) {
	for _, left := range unused(c.st) {
		switch left.Action = Remove; {
		case left.What == Stemcell && c.NewVM() && left.Name == c.w.stemcellCID(c.st):
			continue // The new VM is created from this stemcell: the first create_vm has failed.
		case left.What == Disk && left.Name == d.Disk.Begun, left.What == Disk && c.Disk.Action == Migrate && c.VM.Action == Keep && slices.Contains(c.f.Mounted, left.Name):
			continue // The resumed migration uses this disk or deletes it afterwards.
		case left.What == Disk && c.w.Asked.KeepOldDisk:
			left = Change{What: State, Action: Note, Why: []Reason{{Cause: DiskKept, Subject: left.Name}}}
		}
		d.Changes = append(d.Changes, left)
	}
}

// addRecords adds what is only recorded, in the state or in the vars store.
func (d *Decision) addRecords(c *Choice) {
	w, st := c.w, c.st
	if !d.Records() && (st.CurrentManifestSHA != w.Digest || !sameParts(st.Own.Made, w.MadeOf(st, c.VM.Action)) || !sameApplied(st.Own.Applied, w.Applied) || len(releaseRecords(w, st)) > 0) {
		d.Changes = append(d.Changes, Change{What: State, Action: Note, Why: []Reason{recordReason(w, st)}})
	}
	for _, name := range w.Replaced {
		d.Changes = append(d.Changes, Change{What: Variables, Name: name, Action: Replace, Why: []Reason{{Cause: ValueLost}}})
	}
	if generated := slices.DeleteFunc(slices.Clone(w.Generated), func(name string) bool { return slices.Contains(w.Replaced, name) }); len(generated) > 0 {
		d.Changes = append(d.Changes, Change{What: Variables, Action: Create, Why: []Reason{{Cause: Generated, Names: generated}}})
	}
}

// addAddresses adds the changes of addresses. Addresses that the IaaS chooses are left
// out.
func (d *Decision) addAddresses(changes []network.Change) {
	for _, a := range changes {
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

// nameOf returns an address as plans show it: 10.0.0.5 of default.
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

// warn adds warnings.
func (d *Decision) warn(c *Choice, x Details) {
	w, st, f, vm, disk := c.w, c.st, c.f, c.VM, c.Disk
	add := func(r Reason) { d.Warnings = append(d.Warnings, r) }
	if w.Strategy == "create-swap-delete" && vm.Action == Replace && !d.Swap && x.NoSwap != "" {
		add(Reason{Cause: NoSwap, To: x.NoSwap})
	}
	switch {
	case d.Shrinks:
		add(Reason{Cause: Shrinks, Subject: disk.Name, From: strconv.Itoa(st.Disk().Size), To: strconv.Itoa(w.Disk.Size)})
	case disk.Action == Migrate && d.Disk.Method == "":
		add(Reason{Cause: DataMoves, Subject: disk.Name, Why: disk.Why})
	case disk.Action == Migrate:
		add(Reason{Cause: ResizeOrMove, Subject: disk.Name, Why: disk.Why})
	}
	for _, n := range c.Named {
		if n.Action == Replace {
			add(Reason{Cause: DataStays, Subject: n.Name, Why: n.Why})
		}
	}
	d.warnOfOrphans(c)
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
	for _, text := range x.Notes {
		add(Reason{Cause: Warned, To: text})
	}
}

// warnOfOrphans adds a warning for each kept disk that could be used in place of a new, empty
// one.
func (d *Decision) warnOfOrphans(c *Choice) {
	for _, o := range slices.Concat(c.st.Own.Orphans, c.w.Kept) {
		again := func(n NamedWork) bool { return n.Action == Create && n.Name == o.Name }
		if (c.Disk.Action != Create || o.Name != "") && !slices.ContainsFunc(d.Named, again) {
			continue
		}
		why := o.Why
		if o.Zone != "" && c.w.Zone != "" && o.Zone != c.w.Zone {
			why += "; it was made in the zone " + o.Zone
		}
		of := ""
		if c.w.Several != "" {
			of = " --instance " + c.w.Several
		}
		d.Warnings = append(d.Warnings, Reason{Cause: OrphanStays, Subject: o.CID, From: of, To: why})
	}
}

// compile adds the packages that are compiled while the service is down. A VM
// that stays must stop its jobs first, because its agent removes their packages
// when it compiles. A new VM beside the old one compiles before the old one
// stops.
func (d *Decision) compile(c *Choice, x Details) {
	vm, jobs := c.VM.Action, c.Jobs.Action
	if d.Apart = x.Apart; d.Apart > 0 {
		d.Changes = append(d.Changes, Change{What: Workers, Action: Create, Why: []Reason{{Cause: CompilesApart, From: Count(x.Apart, "package"), To: Count(x.Workers, "VM")}}})
	}
	var why Cause
	switch {
	case vm == Keep && jobs == Update && x.Missing > 0 && c.st.Own.Swap != nil && len(c.f.Now.Job.Templates) == 0:
		// An earlier run was interrupted, or failed, before it started a job on the new
		// VM.
		d.Beside, d.CompilesAny = true, true
		return
	case vm == Keep && jobs == Update && x.Missing > 0:
		d.Compiles, why = x.Missing, CompilesInPlace
	case vm == Replace && !d.Swap && c.f.Answers && x.MissingNew > 0:
		d.Compiles, why = x.MissingNew, CompilesOnNew
	default:
		d.CompilesAny = vm != Keep && x.MissingNew > 0
		return
	}
	d.CompilesAny = true
	d.Changes = append(d.Changes, Change{What: Packages, Action: Create, Why: []Reason{{Cause: why, Count: d.Compiles}}})
}

// addSmall adds the changes without downtime for a VM that stays.
func (d *Decision) addSmall(w Wishes, st state.State) {
	switch {
	case len(st.Own.Applied) > 0 && st.Own.Applied[PartTags] != w.Applied[PartTags]:
		d.Changes = append(d.Changes, Change{What: Tags, Action: Update, Why: []Reason{{Cause: TagsChanged}}})
	case len(st.Own.Applied) == 0 && st.Own.AgentID != "" && (st.Own.Tagged == "" || st.Own.Tagged != w.Applied[PartTags]):
		// The run may have been killed before it tagged the VM.
		d.Changes = append(d.Changes, Change{What: Tags, Action: Update, Why: []Reason{{Cause: TagsUnfinished}}})
	}
	if list, _ := w.agentWork(st); len(list) > 0 {
		d.Changes = append(d.Changes, Change{What: Agent, Action: Update, Why: []Reason{{Cause: SettingsChanged, Names: list}}})
	}
	if d.UseDNS && (st.Own.DNSVersion == 0 || d.Touches() && st.Own.Applied[PartAddress] != w.Applied[PartAddress]) {
		d.Changes = append(d.Changes, Change{What: DNS, Action: Update, Why: []Reason{{Cause: NoDNSRecords}}})
	}
}

// decideJobs decides what to do with the jobs.
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
	case !Runs(f.Now, st.Own.Processes):
		c.Action, c.Why = Start, f.unwell(st.Own.Processes)
		if f.Now.JobState == "failing" || len(Missing(f.Now, st.Own.Processes)) > 0 {
			// A failing job must be stopped with its scripts before it is started again,
			// and monit does not start a process that is missing in its configuration.
			c.Action = Update
		}
	default:
		if c.Why = f.unproven(st); len(c.Why) > 0 {
			c.Action = Start
		}
	}
	return c
}

// stemcellCID returns the CID of the stemcell of the manifest; empty: it is not uploaded.
func (w Wishes) stemcellCID(st state.State) string {
	name, version, _ := strings.Cut(w.Stemcell, "/")
	if sc := st.FindStemcell(name, version); sc != nil {
		return sc.CID
	}
	return ""
}

func uploaded(st state.State, stemcell string) bool {
	return slices.ContainsFunc(st.Stemcells, func(s state.Stemcell) bool { return s.Name+"/"+s.Version == stemcell })
}

// unused lists the objects of an earlier run that the state owns and nothing uses.
func unused(st state.State) []Change {
	var list []Change
	if old := st.Own.Swap; old != nil {
		list = append(list, Change{What: VM, Name: old.CID, Why: []Reason{{Cause: VMReplaced}}})
	}
	for _, d := range st.Disks {
		if !st.Uses(d) {
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
