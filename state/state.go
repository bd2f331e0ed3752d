// Package state is the document with everything that a deployment owns: every CID, in the
// keys and shapes of create-env's state file, and the facts that only this program needs,
// under one additional key. It converts between bytes and the document; its subpackages
// store the bytes.
package state

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Format is the format of the program's own part that Encode writes, and the
// newest that Decode reads.
const Format = 1

// State is the state of a deployment. Lists hold records with an id of their
// own; the Current fields point to those ids, the VM's to its CID. The keys
// outside Own are create-env's (its package config).
type State struct {
	DirectorID         string     `json:"director_id"`
	InstallationID     string     `json:"installation_id"`
	CurrentVMCID       string     `json:"current_vm_cid"`
	CurrentStemcellID  string     `json:"current_stemcell_id"`
	CurrentDiskID      string     `json:"current_disk_id"`
	CurrentReleaseIDs  []string   `json:"current_release_ids"`
	CurrentManifestSHA string     `json:"current_manifest_sha"`
	Disks              []Disk     `json:"disks"`
	Stemcells          []Stemcell `json:"stemcells"`
	Releases           []Release  `json:"releases"`
	Own                Own        `json:"bootstrap"`

	unknown unknown
}

// Disk is a persistent disk; Size is in MiB.
type Disk struct {
	ID              string         `json:"id"`
	CID             string         `json:"cid"`
	Size            int            `json:"size"`
	CloudProperties map[string]any `json:"cloud_properties"`

	unknown *more
}

// Stemcell is a stemcell that was uploaded.
type Stemcell struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	APIVersion int    `json:"api_version,omitempty"`
	CID        string `json:"cid"`

	unknown *more
}

// UnknownStemcell is the name of a stemcell if only its CID is known.
const UnknownStemcell = "unknown-stemcell"

// Release is a release of the last deploy that succeeded.
type Release struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`

	unknown *more
}

// Own is the part that create-env neither writes nor keeps.
type Own struct {
	Format int `json:"format"`
	Serial int `json:"serial"` // grows with every write
	// AgentID is the agent id that the current VM was created with.
	AgentID string `json:"agent_id,omitempty"`
	// Reached is true if the agent of the current VM has answered and no run was
	// interrupted while it deleted the VM.
	Reached bool `json:"reached,omitempty"`
	// Address is the address of the instance on the current VM.
	Address string `json:"address,omitempty"`
	// Zone is the availability zone of the instance. It stays while the instance has no
	// VM.
	Zone string `json:"zone,omitempty"`
	// Ledger is the ledger of the instance's addresses: a path, or a URL without user,
	// password and parameters.
	Ledger string `json:"ledger,omitempty"`
	// Addresses are the addresses that were chosen for the instance on networks in the
	// manifest itself, which are not in a ledger. Released addresses come last, the
	// oldest first.
	Addresses []Address `json:"addresses,omitempty"`
	// Group is the name of the instance group on the current VM.
	Group string `json:"group,omitempty"`
	// Salt is the key of the digests in Made and Applied, as hex.
	Salt string `json:"salt,omitempty"`
	// Made has the parts that the current VM was created from, and Applied those that the
	// last successful deploy applied to it: part -> salted digest. Made is removed with
	// the VM.
	Made    map[string]string `json:"made,omitempty"`
	Applied map[string]string `json:"applied,omitempty"`
	// Tagged is the digest of the current VM's tags, if the deploy that created the VM set
	// them and left the jobs to another deploy; empty: unknown.
	Tagged string `json:"tagged,omitempty"`
	// Processes are the names of the processes in the monit files of the last successful
	// deploy's jobs.
	Processes []string `json:"processes,omitempty"`
	// Variables are the sorted names of the variables with a type in the manifest that
	// was applied last; nil: unknown.
	Variables []string `json:"variables,omitzero"`
	// ManifestSHA1 is the SHA-1, as hex, of the manifest that bosh-init deployed last.
	// It is removed when that VM is replaced.
	ManifestSHA1 string `json:"manifest_sha1,omitempty"`
	// Unproven has the processes that have ended since the jobs were last started; nil after a
	// successful start.
	Unproven *Unproven `json:"unproven,omitempty"`
	// Stopped is true after `bootstrap stop`.
	Stopped bool `json:"stopped,omitempty"`
	// Detached is true after `bootstrap stop --hard` has begun: the instance is to have no
	// VM, and keeps its disk and addresses.
	Detached bool `json:"detached,omitempty"`
	// Created is when the create_vm call for the current VM began, in UTC; nil if
	// another tool created the VM, or a version that did not record it.
	Created *time.Time `json:"created,omitempty"`
	// Deployed is when the last deploy finished, in UTC.
	Deployed *time.Time `json:"deployed,omitempty"`
	// Swap is the VM that the current one replaces, until it is deleted.
	Swap *OldVM `json:"swap,omitempty"`
	// NamedDisks are the disks of persistent_disks, with their records in Disks. The keys
	// of create-env have no place for names.
	NamedDisks []NamedDisk `json:"named_disks,omitempty"`
	// GoneDiskVM is the CID of the VM whose agent still knows a named disk that does not
	// exist any more: with another disk, that agent would not start again.
	GoneDiskVM string `json:"gone_disk_vm,omitempty"`
	// Orphans are disks that no VM uses and that only a person may delete.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Snapshots are copies of disks. Only a person deletes them.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// DNSVersion is the version of the DNS records that were sent last.
	DNSVersion uint64 `json:"dns_version,omitempty"`
	// Leftovers are calls with an unknown outcome.
	Leftovers []Leftover `json:"leftovers,omitempty"`
	Intents   []Intent   `json:"intents,omitempty"`

	unknown unknown
}

// Unproven has for how many seconds each process that has ended must run until it counts as
// running.
type Unproven struct {
	Spec    string         `json:"spec"` // digest of the configuration hash of its jobs
	Seconds map[string]int `json:"seconds"`
}

// OldVM is a VM that another one has replaced.
type OldVM struct {
	CID     string `json:"cid"`
	AgentID string `json:"agent_id,omitempty"`
	// StemcellID is the id, in Stemcells, of its stemcell.
	StemcellID string `json:"stemcell_id,omitempty"`

	unknown *more
}

// Address is an address that the instance holds, or has released.
type Address struct {
	Network  string    `json:"network"`
	Address  string    `json:"address"`
	VM       string    `json:"vm,omitempty"` // CID of the VM that uses it; empty: none yet
	Since    time.Time `json:"since"`
	Released bool      `json:"released,omitempty"`

	unknown *more
}

// NamedDisk is a disk that jobs mount themselves. The agent gives it its name on the VM.
type NamedDisk struct {
	Name string `json:"name"`
	ID   string `json:"id"` // of its record in Disks
	// VM is the CID of the VM to which it was attached under its name; empty: unknown, or
	// none.
	VM string `json:"vm,omitempty"`

	unknown *more
}

// Orphan is a disk that is kept although no VM uses it.
type Orphan struct {
	CID             string         `json:"cid"`
	Size            int            `json:"size"` // MiB
	CloudProperties map[string]any `json:"cloud_properties"`
	Since           time.Time      `json:"since"`
	Why             string         `json:"why"`
	Name            string         `json:"name,omitempty"` // that a named disk had
	// VM is the CID of the VM to which a named disk was still attached.
	VM string `json:"vm,omitempty"`
	// Zone is the availability zone of the instance that used the disk last; empty: unknown.
	Zone string `json:"zone,omitempty"`

	unknown *more
}

// Snapshot is a copy of a disk.
type Snapshot struct {
	CID   string    `json:"cid"`
	Disk  string    `json:"disk"` // CID
	Taken time.Time `json:"taken"`
	// Size in MiB and CloudProperties are those of the disk; 0: unknown.
	Size            int            `json:"size,omitempty"`
	CloudProperties map[string]any `json:"cloud_properties,omitempty"`
	Name            string         `json:"name,omitempty"` // of a named disk

	unknown *more
}

// Leftover is a call during which the run was killed: it may have created an object in
// the cloud whose CID is unknown.
type Leftover struct {
	Intent
	Why string `json:"why"`
}

// Intent announces a CPI call that creates, changes or deletes an object, before the call
// is made. It has the data that recording the result needs, and is removed when the
// result is recorded.
type Intent struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"` // method of the CPI
	Started time.Time `json:"started"`
	Reply   string    `json:"reply,omitempty"` // file to which the CPI writes its reply
	PID     int       `json:"pid,omitempty"`   // process id of the CPI
	// Arguments is the salted digest of the arguments from the manifest.
	Arguments string `json:"arguments,omitempty"`

	AgentID    string `json:"agent_id,omitempty"`    // create_vm
	StemcellID string `json:"stemcell_id,omitempty"` // create_vm
	Group      string `json:"group,omitempty"`       // create_vm: instance group

	// Disk is the CID of the disk that is copied or changed: snapshot_disk,
	// resize_disk, update_disk.
	Disk            string         `json:"disk,omitempty"`
	Size            int            `json:"size,omitempty"` // size of the created or changed disk, in MiB
	CloudProperties map[string]any `json:"cloud_properties,omitempty"`

	// Stemcell describes the stemcell that create_stemcell creates, without its CID. Its
	// ID is that of a record in Stemcells whose stemcell does not exist in the cloud any
	// more; empty: a new one.
	Stemcell *Stemcell `json:"stemcell,omitempty"`

	// CID is the CID that a deleting call deletes.
	CID string `json:"cid,omitempty"`
	// Made has the parts that the VM is created from, for the state's Own.Made.
	Made map[string]string `json:"made,omitempty"`
	// Replaces is true if the VM is created while the current one still exists,
	// which becomes Own.Swap.
	Replaces bool `json:"replaces,omitempty"`

	unknown *more
}

// Identify adds missing ids to the state: a new one has none, and create-env writes them
// only at its first save.
func (s *State) Identify() {
	if s.DirectorID == "" {
		s.DirectorID = uuid.NewString()
	}
	if s.InstallationID == "" {
		s.InstallationID = uuid.NewString()
	}
}

// Installation returns the installation's id as a UUID.
func (s *State) Installation() uuid.UUID {
	id, err := uuid.Parse(s.InstallationID)
	if err != nil {
		return uuid.Nil // Check refuses such a state
	}
	return id
}

// Detached reports whether `bootstrap stop --hard` has deleted the VM.
func (s *State) Detached() bool { return s.Own.Detached && s.CurrentVMCID == "" }

// Stemcell returns the current stemcell, or nil.
func (s *State) Stemcell() *Stemcell {
	return find(s.Stemcells, func(r *Stemcell) bool { return r.ID == s.CurrentStemcellID })
}

// Disk returns the current disk, or nil.
func (s *State) Disk() *Disk {
	return find(s.Disks, func(r *Disk) bool { return r.ID == s.CurrentDiskID })
}

// FindStemcell returns the stemcell with that name and version, or nil.
func (s *State) FindStemcell(name, version string) *Stemcell {
	return find(s.Stemcells, func(r *Stemcell) bool { return r.Name == name && r.Version == version })
}

func find[T any](list []T, match func(*T) bool) *T {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// CIDs has the CIDs of the current VM, disk and stemcell; empty: there is none.
type CIDs struct{ VM, Disk, Stemcell string }

// Current returns the CIDs of the VM, the disk and the stemcell in use.
func (s *State) Current() CIDs {
	c := CIDs{VM: s.CurrentVMCID}
	if d := s.Disk(); d != nil {
		c.Disk = d.CID
	}
	if r := s.Stemcell(); r != nil {
		c.Stemcell = r.CID
	}
	return c
}

// Change applies change to a copy of the state and returns the copy as the next
// version: with the next serial number, repaired and checked.
func (s *State) Change(change func(*State) error) (State, error) {
	next, err := s.clone()
	if err != nil {
		return next, err
	}
	if err := change(&next); err != nil {
		return next, err
	}
	next.Own.Format = Format
	next.Own.Serial++
	next.repairSwap()
	if next.CurrentManifestSHA != "" {
		next.Own.ManifestSHA1 = ""
	}
	return next, next.Check()
}

// clone copies the state deeply, through its own format.
func (s *State) clone() (State, error) {
	var c State
	data, err := json.Marshal(s)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}
