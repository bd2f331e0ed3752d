package deployer

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"bootstrap/agent"
	"bootstrap/manifest"
	"bootstrap/state"
)

// facts is what looking at the world told.
type facts struct {
	agentTold bool              // the agent answered, and it is that of the recorded VM
	agentErr  error             // why not
	now       agent.State       // what it told
	mounted   []string          // CIDs of the disks that the VM has mounted
	hasVM     bool              // the VM exists
	diskGone  bool              // the CPI says that the current disk does not exist
	access    access            // how the agent was reached
	served    *x509.Certificate // the agent's own; nil: unknown
	diskSeen  bool              // the CPI was asked for the current disk
}

// wanted is what the manifest, its artifacts and the command line ask for, as
// far as a plan compares it.
type wanted struct {
	digest    string
	group     string
	stemcell  string            // name/version
	releases  []state.Release   // without ids
	used      map[string]bool   // names of the releases that the VM's jobs are from
	made      map[string]string // of what a VM would be made from
	applied   map[string]string // of what would be put on it
	disk      *manifest.DiskPool
	noAddress bool       // nobody has told the VM's address so far
	strategy  string     // update.vm_strategy
	noSwap    string     // why a new VM cannot be made beside the old one; empty: it can
	second    secondDisk // what is remembered of attaching a second disk
	lost      bool       // the VM went silent when a second disk was attached
	snapshot  bool
	dns       bool
	api       int      // effective CPI API version, 0: not known
	compiles  int      // packages that would be compiled in place
	differs   []string // settings of the agent that are not what the manifest says, as it was seen
	stays     []string // settings of the agent that cannot change on a running VM
	stuck     string   // why
	anew      int      // packages that would be compiled on a new VM
	options   Asked
}

// Asked is what the command line asks of a deploy beside the manifest; a plan
// that is kept in a file carries it.
type Asked struct {
	Recreate      bool `json:"recreate,omitempty"`       // replace the VM though nothing changed
	RecreateDisks bool `json:"recreate_disks,omitempty"` // migrate to a new disk though nothing changed
	Fix           bool `json:"fix,omitempty"`            // replace a VM whose agent does not answer
	SkipDrain     bool `json:"skip_drain,omitempty"`     // stop without pre-stop and drain
	AllowShrink   bool `json:"allow_shrink,omitempty"`   // migrate to a smaller disk
	KeepOldDisk   bool `json:"keep_old_disk,omitempty"`  // keep what was migrated from as an orphan
	AdoptVM       bool `json:"adopt_vm,omitempty"`       // take a VM as made from what the manifest says
}

// Action is what a plan does with one thing.
type Action string

// The actions of a plan.
const (
	create  Action = "create"
	replace Action = "replace"
	update  Action = "update in place"
	migrate Action = "migrate"
	attach  Action = "attach"
	orphan  Action = "orphan" // taken from the VM and kept
	keep    Action = "keep"
	start   Action = "start"
	remove  Action = "delete"
	note    Action = "record" // only the state file changes
)

// The things that a plan has a change for.
const (
	aStemcell = "stemcell"
	aVM       = "vm"
	aDisk     = "disk"
	theJobs   = "jobs"
	packages  = "packages"
	tags      = "tags"
	anAgent   = "agent"
	dnsRecord = "dns"
	variables = "variables"
	record    = "record"
)

// Change is one line of a plan. Why has at least one reason, in words, unless
// the action is keep.
type Change struct {
	What   string   `json:"what"` // stemcell, vm, disk, jobs, packages, tags, agent, dns, variables, record
	Name   string   `json:"name,omitempty"`
	Action Action   `json:"action"`
	Why    []string `json:"why,omitempty"`
}

// Plan is what a deploy will do.
type Plan struct {
	Changes  []Change `json:"changes"`
	Warnings []string `json:"warnings,omitempty"`
	// Diff is how the manifest differs from the one applied last, as lines
	// without secrets.
	Diff []string `json:"diff,omitempty"`
	// Down are the rows that run while the service is down, in their order.
	Down []string `json:"down,omitempty"`
	// Compiles is how many packages are compiled while the service is down: on
	// the VM that stays, or on the one that comes when the old one is deleted.
	Compiles int `json:"compiles,omitempty"`
	// Calls are the calls of the CPI and the agent that running the plan makes,
	// each once: "cpi create_vm", "agent apply". Maybe are those that depend on
	// what the CPI can do.
	Calls []string `json:"calls,omitempty"`
	Maybe []string `json:"maybe,omitempty"`

	swap      bool // the new VM is made before the old one goes
	stopped   bool // the jobs stay stopped, as was asked for
	snapshot  bool
	dns       bool
	blank     bool // the VM has no spec yet, or has not told its address
	beside    bool // the VM compiles while the one that it replaces still serves
	silent    bool // the old VM's agent does not answer
	keepOld   bool
	shrinking bool
}

// on returns what the plan does with the thing.
func (p Plan) on(what string) Action {
	for _, c := range p.Changes {
		if c.What == what && c.Action != remove {
			return c.Action
		}
	}
	return keep
}

// Nothing tells whether there is nothing to do.
func (p Plan) Nothing() bool {
	return !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != keep })
}

// Creates tells whether there is no VM yet.
func (p Plan) Creates() bool { return p.on(aVM) == create }

// Destroys lists, in words, what would be lost or replaced by the plan and is
// worth asking about; none, if nothing is.
func (p Plan) Destroys() []string {
	var list []string
	for _, c := range p.Changes {
		switch {
		case c.What == aVM && c.Action == replace:
			list = append(list, fmt.Sprintf("VM %s is replaced", c.Name))
		case c.What == aDisk && c.Action == migrate:
			list = append(list, fmt.Sprintf("disk %s is replaced by a new one with its content", c.Name))
		case c.What == aDisk && c.Action == orphan:
			list = append(list, fmt.Sprintf("disk %s is taken from the VM and kept", c.Name))
		case c.What == packages:
			list = append(list, c.Why...)
		}
	}
	return list
}

// newVM tells whether the plan ends with another VM than there was.
func (p Plan) newVM() bool { a := p.on(aVM); return a == create || a == replace }

// diskWork tells whether anything is done to the persistent disk.
func (p Plan) diskWork() bool { return p.on(aDisk) != keep }

// applies tells whether jobs and packages are put on the VM.
func (p Plan) applies() bool { return p.newVM() || p.on(theJobs) == update }

// inPlace tells whether the VM stays and its jobs are stopped for a while.
func (p Plan) inPlace() bool {
	return !p.newVM() && (p.on(theJobs) == update || p.diskWork())
}

// stops tells whether jobs that may run are stopped.
func (p Plan) stops() bool { return p.on(aVM) == replace || p.inPlace() }

// starts tells whether jobs are started.
func (p Plan) starts() bool {
	return !p.stopped && (p.newVM() || p.inPlace() || p.on(theJobs) == start)
}

// touches tells whether the deployment is not what is recorded while the plan
// runs.
func (p Plan) touches() bool { return p.newVM() || p.inPlace() }

// The rows of a deploy ask more closely. In turn means: not beside an old VM
// that still serves.

func (p Plan) swaps() bool          { return p.swap }
func (p Plan) makesVM() bool        { return p.newVM() && !p.swap }
func (p Plan) stopsInTurn() bool    { return p.stops() && !p.swap }
func (p Plan) updates() bool        { return !p.newVM() && p.on(theJobs) == update }
func (p Plan) prepares() bool       { return p.updates() && p.Compiles == 0 && !p.blank && !p.beside }
func (p Plan) compiles() bool       { return p.applies() && !p.swap && !p.prepares() && !p.beside }
func (p Plan) compilesBeside() bool { return p.beside }
func (p Plan) providesDisk() bool   { return p.newVM() || p.diskWork() }
func (p Plan) introduces() bool     { return p.makesVM() || p.updates() && p.blank }
func (p Plan) sendsDNS() bool {
	return p.dns && (p.touches() || p.on(dnsRecord) == update) && !p.stopped
}
func (p Plan) snapshots() bool { return p.snapshot && p.stops() && !p.silent }

// records tells whether the state says afterwards that the manifest is applied.
func (p Plan) records() bool {
	return p.touches() || p.on(record) == note || p.on(tags) == update || p.on(anAgent) == update || p.on(dnsRecord) == update
}

// needsCPI tells whether the CPI is called.
func (p Plan) needsCPI() bool {
	return p.newVM() || p.diskWork() || p.on(tags) == update || p.snapshots() || p.deletes()
}

func (p Plan) deletes() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action == remove })
}

// decide makes the plan from what is wanted, recorded and found. The error is
// an *AgentSilentError for a VM that exists and does not answer, a
// *DiskGoneError or a *ShrinkError.
func decide(w wanted, st state.State, f facts) (Plan, error) {
	p := Plan{snapshot: w.snapshot && st.CurrentVMCID != "" && st.CurrentDiskID != "", dns: w.dns}
	if f.diskGone {
		return p, &DiskGoneError{CID: st.Disk().CID}
	}
	vm := Change{What: aVM, Name: st.CurrentVMCID, Action: keep}
	switch {
	case st.CurrentVMCID == "":
		vm.Action, vm.Name, vm.Why = create, w.group+"/0", []string{"there is no VM"}
	case !f.hasVM:
		vm.Action, vm.Why = create, []string{fmt.Sprintf("VM %s is gone", st.CurrentVMCID)}
	case !f.agentTold && st.Own.AgentID != "" && !st.Own.Reached:
		// A run was interrupted before anything was put on it, or while it was
		// deleted: there is nothing to stop.
		vm.Action, vm.Why, p.silent = replace, []string{"its agent does not answer, and it has no jobs to stop"}, true
	case !f.agentTold && w.lost:
		vm.Action, vm.Why, p.silent = replace, []string{"its agent did not come back after a second disk was attached"}, true
	case !f.agentTold && !w.options.Fix:
		return p, &AgentSilentError{VM: st.CurrentVMCID, Err: f.agentErr}
	case !f.agentTold:
		vm.Action, vm.Why, p.silent = replace, []string{f.whyLost()}, true
	default:
		if vm.Why = replaceReasons(w, st); len(vm.Why) > 0 {
			vm.Action = replace
		}
	}
	disk, err := decideDisk(w, st, f, vm.Action)
	if err != nil {
		return p, err
	}
	if vm.Action == keep {
		if why := diskReplaces(w, st, f, disk); why != "" {
			vm.Action, vm.Why = replace, []string{why}
			if disk, err = decideDisk(w, st, f, replace); err != nil {
				return p, err
			}
		}
	}
	jobs := decideJobs(w, st, f, vm.Action)
	if vm.Action == keep && w.strategy != "" && st.CurrentManifestSHA != "" && (jobs.Action == update || disk.Action != keep) {
		vm.Action, vm.Why = replace, append([]string{"update.vm_strategy is " + w.strategy}, append(jobs.Why, disk.Why...)...)
		if disk, err = decideDisk(w, st, f, replace); err != nil {
			return p, err
		}
		jobs = decideJobs(w, st, f, replace)
	}
	p.swap = vm.Action == replace && w.strategy == "create-swap-delete" && w.noSwap == "" && f.agentTold
	p.stopped = st.Own.Stopped
	p.blank = vm.Action == keep && (f.now.Deployment == "" || w.noAddress)
	p.shrinking = disk.Action == migrate && w.disk.Size < st.Disk().Size
	p.keepOld = w.options.KeepOldDisk
	p.fill(w, st, f, vm, disk, jobs)
	return p, nil
}

// fill lists all changes, the kept things included, with the warnings.
func (p *Plan) fill(w wanted, st state.State, f facts, vm, disk, jobs Change) {
	sc := Change{What: aStemcell, Name: w.stemcell, Action: keep}
	if p := vm.Action; (p == create || p == replace) && !uploaded(st, w.stemcell) {
		sc.Action, sc.Why = create, []string{"it is not uploaded yet"}
		if old := st.Stemcell(); old != nil {
			sc.Why = []string{stemcellChange(*old, w.stemcell)}
		}
	}
	p.Changes = append(p.Changes, sc, vm)
	if w.disk != nil || disk.Action != keep {
		p.Changes = append(p.Changes, disk)
	}
	p.Changes = append(p.Changes, jobs)
	p.compile(w, st, f, vm, jobs)
	if vm.Action == keep {
		p.addSmall(w, st)
	}
	for _, x := range unused(st) {
		switch x.Action = remove; {
		case x.What == aDisk && disk.Action == migrate && vm.Action == keep && slices.Contains(f.mounted, x.Name):
			continue // the migration that was cut goes on with it, or it goes when that is done
		case x.What == aDisk && w.options.KeepOldDisk:
			x = Change{What: record, Action: note, Why: []string{fmt.Sprintf("disk %s is unused and kept as an orphan", x.Name)}}
		}
		p.Changes = append(p.Changes, x)
	}
	if !p.records() && (st.CurrentManifestSHA != w.digest || !sameParts(st.Own.Made, w.madeOf(st, vm.Action)) || !sameApplied(st.Own.Applied, w.applied) || len(releaseChanges(w.releases, st.Releases, nil)) > 0) {
		p.Changes = append(p.Changes, Change{What: record, Action: note, Why: recordReasons(w, st)})
	}
	if w.strategy == "create-swap-delete" && vm.Action == replace && !p.swap && w.noSwap != "" {
		p.Warnings = append(p.Warnings, "the new VM is made only when the old one is deleted, in spite of create-swap-delete: "+w.noSwap)
	}
	switch {
	case p.shrinking:
		p.Warnings = append(p.Warnings, fmt.Sprintf("disk %s shrinks from %d to %d MiB: what does not fit cannot be moved", disk.Name, st.Disk().Size, w.disk.Size))
	case disk.Action == migrate && (w.options.RecreateDisks || w.api == 1):
		p.Warnings = append(p.Warnings, fmt.Sprintf("the data of disk %s moves to a new disk: %s", disk.Name, strings.Join(disk.Why, "; ")))
	case disk.Action == migrate:
		p.Warnings = append(p.Warnings, fmt.Sprintf("disk %s is resized where the CPI can, else its data is migrated to a new one: %s", disk.Name, strings.Join(disk.Why, "; ")))
	}
	if disk.Action == create {
		for _, o := range st.Own.Orphans {
			p.Warnings = append(p.Warnings, fmt.Sprintf("a new, empty disk is made, and disk %s (%s) stays an orphan: bootstrap disks attach takes it instead", o.CID, o.Why))
		}
	}
	if vm.Action == replace && !p.swap && f.agentTold && asksOtherVM(w, st) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("VM %s is deleted before the new one is made: if the CPI refuses to make that one (its cloud_properties are wrong, for example), there is no way back to the old one; the disk is kept, and the service comes back with a deploy that succeeds", vm.Name))
	}
	if p.silent && f.hasVM && st.Own.Reached {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the jobs on VM %s are not stopped and its disk is not unmounted: %s", st.CurrentVMCID, f.whyLost()))
	}
	if p.stopped {
		p.Warnings = append(p.Warnings, stayStopped)
	}
}

const stayStopped = "the jobs were stopped with `bootstrap stop` and stay so: `bootstrap start` starts them"

// addSmall adds what changes without a downtime on a VM that stays.
func (p *Plan) addSmall(w wanted, st state.State) {
	switch {
	case len(st.Own.Applied) > 0 && st.Own.Applied[partTags] != w.applied[partTags]:
		p.Changes = append(p.Changes, Change{What: tags, Action: update, Why: []string{"tags changed"}})
	case len(st.Own.Applied) == 0 && st.Own.AgentID != "":
		// It may have been cut before it named what it made.
		p.Changes = append(p.Changes, Change{What: tags, Action: update, Why: []string{"the deploy that made the VM was not finished"}})
	}
	list, stays := w.agentWork(st)
	if len(list) > 0 {
		p.Changes = append(p.Changes, Change{What: anAgent, Action: update, Why: []string{"changed: " + strings.Join(list, ", ")}})
	}
	if len(stays) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s of the agent differs from the manifest and stays until the VM is replaced, with deploy --recreate: %s", strings.Join(stays, ", "), w.stuck))
	}
	if w.dns && (st.Own.DNSVersion == 0 || p.touches() && st.Own.Applied[partAddress] != w.applied[partAddress]) {
		p.Changes = append(p.Changes, Change{What: dnsRecord, Action: update, Why: []string{"features.use_dns_addresses is true and the VM has no records yet"}})
	}
}

// decideDisk says what becomes of the persistent disk beside the VM's action.
func decideDisk(w wanted, st state.State, f facts, vm Action) (Change, error) {
	have := st.Disk()
	c := Change{What: aDisk, Action: keep}
	switch {
	case have == nil && w.disk == nil:
		return c, nil
	case have == nil:
		c.Action, c.Name, c.Why = create, fmt.Sprintf("%d MiB", w.disk.Size), []string{"there is no persistent disk"}
		return c, nil
	case w.disk == nil:
		c.Action, c.Name, c.Why = orphan, have.CID, []string{"the manifest asks for no persistent disk any more; it is kept: see bootstrap disks"}
		return c, nil
	}
	c.Name = have.CID
	c.Why = diskReasons(*have, *w.disk)
	switch {
	case w.disk.Size < have.Size && !w.options.AllowShrink:
		return c, &ShrinkError{CID: have.CID, From: have.Size, To: w.disk.Size}
	case len(c.Why) > 0 && w.second.New && !w.options.RecreateDisks:
		return c, &NoSecondDiskError{Disk: have.CID, When: w.second.When}
	case len(c.Why) > 0:
		c.Action = migrate
	case w.options.RecreateDisks:
		c.Action, c.Why = migrate, []string{"asked to with --recreate-persistent-disks"}
	case vm == create || vm == replace:
		c.Why = nil // it goes over to the new VM
	case !slices.Contains(f.mounted, have.CID):
		c.Action, c.Why = attach, []string{"the VM does not have it mounted"}
	}
	return c, nil
}

// diskReplaces says why what is done to the disk takes a new VM, if it does.
func diskReplaces(w wanted, st state.State, f facts, disk Change) string {
	foreign := slices.IndexFunc(f.mounted, func(cid string) bool { return diskOf(st, cid) == nil })
	switch {
	case disk.Action != keep && foreign >= 0:
		// The agent would take another disk for the target of a migration.
		return fmt.Sprintf("disk %s is mounted, which is not recorded as the deployment's", f.mounted[foreign])
	case disk.Action == migrate && !w.second.When.IsZero():
		return "the CPI could not attach a second disk to the running VM, which moving the data needs"
	case disk.Action == orphan:
		// The real agent does not survive the start after its only disk was
		// removed with remove_persistent_disk.
		return "the persistent disk is taken away"
	case disk.Action != keep && w.api == 1:
		return "the CPI's API version 1 tells a VM of a disk only when the VM is made"
	case w.api == 1 && f.now.Deployment == "" && len(st.Disks) > 1:
		// What the registry told this VM is gone with the run that made it.
		return "an earlier run was cut when it may have had two disks, and the CPI's API version 1 takes one from it only in the run that made the VM"
	}
	return ""
}

// decideJobs says what becomes of the jobs.
func decideJobs(w wanted, st state.State, f facts, vm Action) Change {
	c := Change{What: theJobs, Name: w.group, Action: keep}
	if vm == create || vm == replace {
		c.Action, c.Why = create, []string{"the VM is new"}
		return c
	}
	c.Why = jobReasons(w, st, f)
	switch {
	case len(c.Why) > 0:
		c.Action = update
	case st.Own.Stopped:
	case !f.running():
		c.Action, c.Why = start, f.unwell()
		if f.now.JobState == "failing" {
			// Only what was stopped in order is started in order.
			c.Action = update
		}
	}
	return c
}

// running tells whether the jobs run, all of them.
func (f facts) running() bool { return f.now.JobState == "running" && len(notRunning(f.now)) == 0 }

func (f facts) unwell() []string {
	if list := notRunning(f.now); len(list) > 0 {
		return list
	}
	return []string{"the jobs are " + cmp.Or(f.now.JobState, "in an unknown state")}
}

// notRunning lists the processes that do not run, with their states.
func notRunning(now agent.State) []string {
	var list []string
	for _, p := range now.Processes {
		if p.State != "running" {
			list = append(list, fmt.Sprintf("process %s is %s", p.Name, p.State))
		}
	}
	return list
}

func uploaded(st state.State, stemcell string) bool {
	return slices.ContainsFunc(st.Stemcells, func(s state.Stemcell) bool { return s.Name+"/"+s.Version == stemcell })
}

// unused lists what the state owns and nothing uses, as an earlier run left it.
func unused(st state.State) []Change {
	var list []Change
	if old := st.Own.Swap; old != nil {
		list = append(list, Change{What: aVM, Name: old.CID, Why: []string{"another VM has replaced it"}})
	}
	for _, d := range st.Disks {
		if d.ID != st.CurrentDiskID {
			list = append(list, Change{What: aDisk, Name: d.CID, Why: []string{"it is unused"}})
		}
	}
	for _, sc := range st.Stemcells {
		if sc.ID != st.CurrentStemcellID && (st.Own.Swap == nil || sc.ID != st.Own.Swap.StemcellID) {
			list = append(list, Change{What: aStemcell, Name: sc.CID, Why: []string{"it is unused"}})
		}
	}
	return list
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
