package plan

import (
	"time"

	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// Wishes is what the manifest, its artifacts and the command line ask for, as
// far as a plan compares it.
type Wishes struct {
	Digest    string // of the manifest, as create-env computes it
	Group     string
	Index     int               // of the instance in the group
	Stemcell  string            // name/version
	Light     bool              // the stemcell only names an image of the cloud
	Releases  []state.Release   // without ids
	Embedded  map[string]bool   // names of releases that are part of this program
	Used      map[string]bool   // names of the releases that the VM's jobs are from
	Made      map[string]string // digests of what a VM would be created from
	Applied   map[string]string // digests of what would be applied to it
	Links     map[string]string // where the links of jobs come from, for people, by LinkName
	Disk      *manifest.DiskPool
	Dynamic   bool   // only the VM knows its address
	NoAddress bool   // and it has not reported it yet
	Strategy  string // update.vm_strategy
	Snapshot  bool
	DNS       bool
	API       int // effective CPI API version; 0: unknown

	// Places are the places that reasons name in a manifest in the Director's style,
	// by the part of the VM or by the place in create-env's style.
	Places     map[string]string
	SecondDisk SecondDisk // what is recorded about attaching a second disk
	Lost       bool       // the VM went silent when a second disk was attached

	Differs []string // settings of the agent that were seen to differ from the manifest
	Stays   []string // settings of the agent that cannot change on a running VM
	Stuck   string   // why

	Generated []string // names of variables that the deploy will generate
	Replaced  []string // those of them whose earlier values the VM uses
	Asked     Asked
}

// Details is what a decision needs that the choice does not depend on. What a choice does
// not need is not asked for: its fields are zero.
type Details struct {
	// Addresses is what happens to the instance's addresses, as package network
	// decides; empty without a cloud config.
	Addresses []network.Change
	Notes     []string // warnings of the manifest

	NoSwap string // why a new VM cannot be created beside the old one; empty: it can

	// What a new VM or disk is made of; zero: there is nothing to say, or none is made.
	Machine   Reason // of which kind the VM is
	Network   Reason // what connects the VM
	Limits    Reason // which limits nothing holds the VM to
	DiskLimit Reason // why nothing stops the disk at its size

	Missing    int // packages that would be compiled in place
	MissingNew int // packages that would be compiled on a new VM

	OldScripts []string // that the jobs which run have, or may have: names of Scripts
	NewScripts []string // that the jobs of the manifest have
	Checks     bool     // the service has health checks
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
