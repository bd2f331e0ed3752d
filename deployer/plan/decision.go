package plan

import (
	"fmt"
	"slices"
)

// Decision has the changes of a deploy, with reasons, and the facts that decide its
// steps. It can be compared and saved.
type Decision struct {
	Changes  []Change `json:"changes"`
	Warnings []Reason `json:"warnings,omitempty"`
	// Compiles is the number of packages that are compiled while the service is down: on
	// the VM that stays, or on the new one after the old one was deleted.
	Compiles int `json:"compiles,omitempty"`

	Swap     bool    `json:"swap,omitempty"`     // the new VM is created before the old one is deleted
	Beside   bool    `json:"beside,omitempty"`   // the new VM compiles while the old one still serves
	Stopped  bool    `json:"stopped,omitempty"`  // the jobs stay stopped, after bootstrap stop
	Rests    bool    `json:"rests,omitempty"`    // nothing runs on the recorded VM since bootstrap stop
	Blank    bool    `json:"blank,omitempty"`    // the VM has no spec yet, or has not reported its address
	Silent   bool    `json:"silent,omitempty"`   // the old VM's agent does not answer
	Answers  bool    `json:"answers,omitempty"`  // the agent of the recorded VM answers
	HasVM    bool    `json:"has_vm,omitempty"`   // the recorded VM exists
	Current  string  `json:"vm,omitempty"`       // CID of the recorded VM
	AgentID  string  `json:"agent_id,omitempty"` // agent id of the recorded VM, as its agent reports it
	Applied  string  `json:"applied,omitempty"`  // configuration hash of the jobs on the recorded VM
	Lost     *Reason `json:"lost,omitempty"`     // why the jobs of the recorded VM cannot be stopped; nil: they can
	Replaced string  `json:"replaced,omitempty"` // CID of a VM that an earlier run has replaced and not deleted

	ReplacedAnswers bool `json:"replaced_answers,omitempty"` // the agent of Replaced answers

	Snapshots     bool `json:"snapshot,omitempty"` // snapshots of the disk are taken before it is changed
	UseDNS        bool `json:"dns,omitempty"`
	DNSFirst      bool `json:"dns_first,omitempty"`
	Dynamic       bool `json:"dynamic,omitempty"`
	Address       bool `json:"address,omitempty"` // the address is known before a new VM reports it
	Light         bool `json:"light,omitempty"`
	Apart         int  `json:"apart,omitempty"` // packages for compilation VMs
	CompilesAny   bool `json:"compiles_any,omitempty"`
	API           int  `json:"api,omitempty"`
	Fix           bool `json:"fix,omitempty"`
	SkipDrain     bool `json:"skip_drain,omitempty"`
	KeepOldDisk   bool `json:"keep_old_disk,omitempty"`
	CreateOnly    bool `json:"create_only,omitempty"`
	NoWait        bool `json:"no_wait,omitempty"`
	Shrinks       bool `json:"shrinks,omitempty"`
	DiskAsked     bool `json:"disk_asked,omitempty"`     // the CPI was asked for the current disk
	DropsStemcell bool `json:"drops_stemcell,omitempty"` // the old VM's stemcell is deleted at the end
	Ledger        bool `json:"ledger,omitempty"`         // the addresses are reserved in the ledger

	// OldScripts and NewScripts are the kinds of scripts that jobs have or may have:
	// running jobs, and jobs that are started.
	OldScripts []string `json:"old_scripts,omitempty"`
	NewScripts []string `json:"new_scripts,omitempty"`
	Checks     bool     `json:"checks,omitempty"` // the service has health checks

	Disk  DiskWork    `json:"disk"`
	Named []NamedWork `json:"named_disks,omitempty"`
	// DiskSize is the size of the disk after the steps, in MiB; 0: there is none, or the
	// manifest is in create-env's style.
	DiskSize  int      `json:"-"`
	Mounted   []string `json:"mounted,omitempty"`   // CIDs of the disks that are mounted on the recorded VM
	Leftovers []string `json:"leftovers,omitempty"` // calls that checking leftovers may make
}

// DiskWork has the facts about the persistent disk that decide its step.
type DiskWork struct {
	CID     string `json:"cid,omitempty"`     // CID of the current disk; empty: there is none
	Mounted bool   `json:"mounted,omitempty"` // mounted on the VM that stays
	// Begun is the CID of the disk that an interrupted run has mounted as the
	// target of a migration; empty: there is none.
	Begun string `json:"begun,omitempty"`
	// Method is the CPI's method that may change the disk itself; empty: none is called.
	Method string `json:"method,omitempty"`
	// As is the name of a named disk; empty: it is the persistent disk.
	As string `json:"as,omitempty"`
}

// on returns the action for a thing.
func (d Decision) on(what string) Action {
	for _, c := range d.Changes {
		if c.What == what && c.Action != Remove {
			return c.Action
		}
	}
	return Keep
}

// On returns the action for a thing: one of the constants VM, Disk and so on.
func (d Decision) On(what string) Action { return d.on(what) }

// Nothing reports whether the plan changes nothing.
func (d Decision) Nothing() bool {
	return !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Action != Keep })
}

// Destroys lists what the plan would delete or replace, in words, for the question to a
// person; nil: nothing.
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
		case c.What == NamedDisk && c.Action == Orphan:
			list = append(list, fmt.Sprintf("named disk %s is removed from the VM and kept as an orphan", c.Name))
		case c.What == NamedDisk && c.Action == Replace:
			list = append(list, fmt.Sprintf("named disk %s is replaced by an empty one, and kept as an orphan with its data", c.Name))
		case c.What == Packages:
			list = append(list, c.What+": "+Words(c.Why))
		}
	}
	return list
}

// NewVM reports whether a new VM is created.
func (d Decision) NewVM() bool { a := d.on(VM); return a == Create || a == Replace }

// NewDisk reports whether a persistent disk is created, or may be.
func (d Decision) NewDisk() bool { a := d.on(Disk); return a == Create || a == Migrate }

// diskWork reports whether the plan changes a persistent disk.
func (d Decision) diskWork() bool { return d.on(Disk) != Keep || namedChanges(d.Named) }

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
	return !d.Stopped && !d.CreateOnly && (d.NewVM() || d.inPlace() || d.on(Jobs) == Start)
}

// Touches reports whether the recorded state is out of date while the plan runs.
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

// needsCPI reports whether the CPI is called although the VM stays: then it is connected
// while the service is up.
func (d Decision) needsCPI() bool {
	return d.diskWork() || d.on(Tags) == Update || d.snapshots() || d.removes() || d.Replaced != ""
}

// reserves reports whether addresses are reserved first, and rebinds whether a
// reservation of a VM that stays changes.
func (d Decision) reserves() bool { return d.addresses(Reserve, Note) }
func (d Decision) rebinds() bool  { return d.addresses(Reserve, Note, Release, Hold) }

func (d Decision) addresses(actions ...Action) bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.What == Address && slices.Contains(actions, c.Action) })
}

// removes reports whether something unused is deleted.
func (d Decision) removes() bool {
	return slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Action == Remove })
}
