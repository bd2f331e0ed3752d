// Package state keeps what a deployment owns in a JSON file beside its
// manifest: every CID, in the keys and shapes of create-env's state file, and
// what only this program knows under one key of its own.
package state

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Format is the newest format of the program's own part that it reads, and
// the one it writes.
const Format = 1

// State is the content of a state file. Lists hold records with an id of
// their own; the Current fields point to those ids, the VM's to its CID.
// The keys outside Own are create-env's (its package config).
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
}

// Stemcell is a stemcell that was uploaded.
type Stemcell struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	APIVersion int    `json:"api_version,omitempty"`
	CID        string `json:"cid"`
}

// Release is a release of the last deploy that succeeded.
type Release struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Own is the part create-env neither writes nor keeps.
type Own struct {
	Format int `json:"format"`
	Serial int `json:"serial"` // grows with every write
	// AgentID is the agent id the current VM was made with.
	AgentID string `json:"agent_id,omitempty"`
	// Reached tells that the agent of the current VM has answered once, and that
	// no run was interrupted while it deleted the VM.
	Reached bool `json:"reached,omitempty"`
	// Address is the address of the instance on the current VM.
	Address string `json:"address,omitempty"`
	// Group is the name of the instance group on the current VM.
	Group string `json:"group,omitempty"`
	// Salt is what the digests of Made and Applied are keyed with, as hex.
	Salt string `json:"salt,omitempty"`
	// Made says what the current VM was made from, and Applied what the last
	// finished deploy put on it: part -> salted digest. Made goes with the VM.
	Made    map[string]string `json:"made,omitempty"`
	Applied map[string]string `json:"applied,omitempty"`
	// ManifestSHA1 is of the bytes of the manifest that bosh-init deployed last,
	// as hex, while that VM is the current one.
	ManifestSHA1 string `json:"manifest_sha1,omitempty"`
	// Stopped tells that the jobs do not run because they were asked not to.
	Stopped bool `json:"stopped,omitempty"`
	// Deployed is when the last deploy finished, in UTC.
	Deployed *time.Time `json:"deployed,omitempty"`
	// Swap is the VM that makes way for the current one and is not deleted yet.
	Swap *OldVM `json:"swap,omitempty"`
	// Orphans are disks that no VM uses and that are kept until somebody says.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Snapshots are copies of disks that were taken before changes; nothing
	// deletes them.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// DNSVersion is the version of the DNS records that were sent last.
	DNSVersion uint64 `json:"dns_version,omitempty"`
	// Leftovers are calls whose outcome nobody can tell.
	Leftovers []Leftover `json:"leftovers,omitempty"`
	Intents   []Intent   `json:"intents,omitempty"`

	unknown unknown
}

// OldVM is a VM that another one has replaced.
type OldVM struct {
	CID     string `json:"cid"`
	AgentID string `json:"agent_id,omitempty"`
	// StemcellID is the record of the stemcell it was made from.
	StemcellID string `json:"stemcell_id,omitempty"`
}

// Orphan is a disk that is kept though nothing uses it.
type Orphan struct {
	CID             string         `json:"cid"`
	Size            int            `json:"size"` // MiB
	CloudProperties map[string]any `json:"cloud_properties"`
	Since           time.Time      `json:"since"`
	Why             string         `json:"why"`
}

// Snapshot is a copy of a disk.
type Snapshot struct {
	CID   string    `json:"cid"`
	Disk  string    `json:"disk"` // CID
	Taken time.Time `json:"taken"`
}

// Leftover is a call that an earlier run was cut in and that may have made
// something in the cloud which no CID is known of.
type Leftover struct {
	Intent
	Why string `json:"why"`
}

// Intent announces a CPI call that creates, changes or deletes something,
// before the call is made; it goes when the call's result is recorded. It holds what the record
// of the result will need.
type Intent struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"` // of the CPI
	Started time.Time `json:"started"`
	Reply   string    `json:"reply,omitempty"` // file in which the CPI's reply will stand
	// Arguments is the salted digest of what the call was made with, as far as
	// the manifest says it.
	Arguments string `json:"arguments,omitempty"`

	AgentID    string `json:"agent_id,omitempty"`    // create_vm
	StemcellID string `json:"stemcell_id,omitempty"` // create_vm
	Group      string `json:"group,omitempty"`       // create_vm: instance group

	// Disk is the CID of the disk that is copied or changed: snapshot_disk,
	// resize_disk, update_disk.
	Disk            string         `json:"disk,omitempty"`
	Size            int            `json:"size,omitempty"` // of the disk that is made or changed, MiB
	CloudProperties map[string]any `json:"cloud_properties,omitempty"`

	// Stemcell is what create_stemcell makes, without its CID. Its ID is that of
	// the record whose stemcell is gone from the cloud; empty: a new record.
	Stemcell *Stemcell `json:"stemcell,omitempty"`

	// CID is what a call that deletes is about.
	CID string `json:"cid,omitempty"`
	// Made is what a VM is made from, for the state's Own.Made.
	Made map[string]string `json:"made,omitempty"`
	// Replaces tells that the VM is made while the current one still is there:
	// that one becomes Own.Swap.
	Replaces bool `json:"replaces,omitempty"`
}

// Installation is the installation's id as what it is, a UUID.
func (s *State) Installation() uuid.UUID {
	id, err := uuid.Parse(s.InstallationID)
	if err != nil {
		return uuid.Nil // no state that was opened is so
	}
	return id
}

// Stemcell returns the record of the current stemcell, or nil.
func (s *State) Stemcell() *Stemcell {
	return find(s.Stemcells, func(r *Stemcell) bool { return r.ID == s.CurrentStemcellID })
}

// Disk returns the record of the current disk, or nil.
func (s *State) Disk() *Disk {
	return find(s.Disks, func(r *Disk) bool { return r.ID == s.CurrentDiskID })
}

// FindStemcell returns the record with that name and version, or nil.
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

// clone copies the state deeply, through its own format.
func (s *State) clone() (State, error) {
	var c State
	data, err := json.Marshal(s)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}
