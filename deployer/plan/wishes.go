package plan

import (
	"time"

	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// Wishes are the inputs of a plan from the manifest, its artifacts and the command line.
type Wishes struct {
	Digest   string // digest of the manifest, as create-env computes it
	Group    string
	Index    int             // index of the instance in its group
	Stemcell string          // name/version
	Light    bool            // the stemcell only names an image of the cloud
	Releases []state.Release // releases without ids
	Embedded map[string]bool // names of releases that are part of this program
	Used     map[string]bool // names of the releases that the VM's jobs are from
	// ByContent is true if another version of a release changes nothing as long as the jobs
	// and packages that are used from it are the same.
	ByContent bool
	Made      map[string]string // digests of the parts that a VM would be created from
	Applied   map[string]string // digests of the parts that would be applied
	Links     map[string]string // where the links of jobs come from, for people, by LinkName
	Disk      *manifest.DiskPool
	Named     []manifest.NamedDisk
	Zone      string // zone of the instance; empty: it has none
	Several   string // GROUP/INDEX of the instance of a manifest with several; empty: it is the only one
	// Kept are orphans of deleted instances that had the same group and index.
	Kept      []state.Orphan
	Director  bool   // the manifest has a cloud config, and not create-env's style
	Dynamic   bool   // only the VM knows its address
	NoAddress bool   // and the VM has not reported it yet
	Strategy  string // update.vm_strategy
	Snapshot  bool
	DNS       bool
	DNSFirst  bool // only a new VM gets DNS records, before its jobs; the deployment sends them to all others
	API       int  // effective CPI API version; 0: unknown

	// Places are the names for reasons, if the manifest is in the Director's style: by the
	// part of the VM, or by the name in create-env's style.
	Places     map[string]string
	SecondDisk SecondDisk // the record about attaching a second disk
	Lost       bool       // the agent stopped answering when a second disk was attached

	Differs []string // settings of the agent that differ from the manifest
	Stays   []string // settings of the agent that cannot change on a running VM
	Stuck   string   // why the settings in Stays cannot change

	Generated []string // names of variables that the deploy will generate
	Replaced  []string // those of Generated whose earlier values the VM uses
	Asked     Asked
}

// Details are inputs of a decision that do not affect the choice. Fields that a choice
// does not need are zero.
type Details struct {
	// Addresses are the changes of the instance's addresses, from package network; empty
	// without a cloud config.
	Addresses []network.Change
	Notes     []string // warnings of the manifest

	NoSwap string // why a new VM cannot be created while the old one exists; empty: it can

	// Facts about a new VM or disk; zero: there is nothing to report, or none is created.
	Machine   Reason // the kind of the VM
	Network   Reason // the network of the VM
	Limits    Reason // limits of the VM that are not enforced
	DiskLimit Reason // why the size of the disk is not enforced

	Missing    int // packages that would be compiled in place
	MissingNew int // packages that would be compiled on a new VM
	Apart      int // packages for compilation VMs; not among the others
	Workers    int // how many VMs compile them at the same time

	OldScripts []string // scripts of the running jobs, or scripts that they may have: names of Scripts
	NewScripts []string // scripts of the manifest's jobs
	Checks     bool     // the service has health checks
}

// SecondDisk is this machine's record that a CPI could not attach a second disk; zero:
// there is none.
type SecondDisk struct {
	When time.Time
	New  bool // it failed on a new VM, too: replacing the VM again would not help
}

// Asked has the flags that change a plan; a saved plan contains them, too.
type Asked struct {
	Recreate bool `json:"recreate,omitempty"` // replace the VM even if nothing changed
	// CreatedBefore limits Recreate to a VM that was created earlier; zero: any VM.
	CreatedBefore time.Time `json:"created_before,omitzero"`
	RecreateDisks bool      `json:"recreate_disks,omitempty"` // migrate to a new disk even if nothing changed
	Fix           bool      `json:"fix,omitempty"`            // replace a VM whose agent does not answer
	SkipDrain     bool      `json:"skip_drain,omitempty"`     // stop without pre-stop and drain
	AllowShrink   bool      `json:"allow_shrink,omitempty"`   // migrate to a smaller disk
	KeepOldDisk   bool      `json:"keep_old_disk,omitempty"`  // keep the old disk of a migration as an orphan
	// CreateOnly creates a VM that does not exist, and leaves the rest to another deploy.
	CreateOnly     bool `json:"create_only,omitempty"`
	SkipPostDeploy bool `json:"skip_post_deploy,omitempty"` // leave out the post-deploy scripts
	NoWait         bool `json:"no_wait,omitempty"`          // start the jobs, and do not wait until they run
	Attach         bool `json:"attach,omitempty"`           // create the VM that bootstrap stop --hard has deleted
	AdoptVM        bool `json:"adopt_vm,omitempty"`         // accept that the VM was created from this manifest
}
