package ui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bootstrap/state"
)

// State is a state in the form of show: the keys of create-env, and those under this
// program's own key.
type State struct {
	Path           string         `json:"path"`
	Serial         int            `json:"serial"`
	DirectorID     string         `json:"director_id"`
	InstallationID string         `json:"installation_id"`
	VMs            []vmView       `json:"vms"`
	Disks          []diskView     `json:"disks"`
	Snapshots      []snapshotView `json:"snapshots,omitempty"`
	Stemcells      []nameView     `json:"stemcells"`
	Releases       []nameView     `json:"releases"`
	Deployed       *time.Time     `json:"deployed,omitempty"`
	Finished       bool           `json:"finished"` // the last deploy was recorded as finished
	Stopped        bool           `json:"stopped"`
	Leftovers      []Leftover     `json:"leftovers"`
}

type vmView struct {
	CID     string `json:"cid"`
	Current bool   `json:"current"`
	AgentID string `json:"agent_id,omitempty"`
	Group   string `json:"group,omitempty"`
	Address string `json:"address,omitempty"`
}

type diskView struct {
	CID     string     `json:"cid"`
	Name    string     `json:"name,omitempty"` // of a disk in persistent_disks
	Size    int        `json:"size"`           // MiB
	Current bool       `json:"current"`
	Kept    *time.Time `json:"kept_since,omitempty"`
	Why     string     `json:"why,omitempty"`
}

type snapshotView struct {
	CID   string    `json:"cid"`
	Disk  string    `json:"disk"`
	Taken time.Time `json:"taken"`
}

type nameView struct {
	CID     string `json:"cid,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Current bool   `json:"current"`
}

// StateOf converts a state for programs and people; path is its path or its store.
func StateOf(path string, st state.State) State {
	v := State{
		Path: path, Serial: st.Own.Serial, DirectorID: st.DirectorID, InstallationID: st.InstallationID,
		VMs: []vmView{}, Disks: []diskView{}, Stemcells: []nameView{}, Releases: []nameView{},
		Deployed: st.Own.Deployed, Finished: st.CurrentManifestSHA != "", Stopped: st.Own.Stopped,
		Leftovers: LeftoversOf(st),
	}
	if st.CurrentVMCID != "" {
		v.VMs = append(v.VMs, vmView{st.CurrentVMCID, true, st.Own.AgentID, st.Own.Group, st.Own.Address})
	}
	if old := st.Own.Swap; old != nil {
		v.VMs = append(v.VMs, vmView{CID: old.CID, AgentID: old.AgentID})
	}
	for _, d := range st.Disks {
		v.Disks = append(v.Disks, diskView{CID: d.CID, Name: st.NameOf(d.CID), Size: d.Size, Current: st.Uses(d)})
	}
	for _, o := range st.Own.Orphans {
		v.Disks = append(v.Disks, diskView{CID: o.CID, Name: o.Name, Size: o.Size, Kept: &o.Since, Why: o.Why})
	}
	for _, s := range st.Own.Snapshots {
		v.Snapshots = append(v.Snapshots, snapshotView{s.CID, s.Disk, s.Taken})
	}
	for _, s := range st.Stemcells {
		v.Stemcells = append(v.Stemcells, nameView{s.CID, s.Name, s.Version, s.ID == st.CurrentStemcellID})
	}
	for _, r := range st.Releases {
		v.Releases = append(v.Releases, nameView{"", r.Name, r.Version, true})
	}
	return v
}

// Print prints the state as a table.
func (v State) Print(out *Writer) {
	fmt.Fprintf(out, "State file %s, serial number %d\nInstallation %s\n\n", v.Path, v.Serial, v.InstallationID)
	table := NewTable(out, "WHAT", "CID", "USE", "DETAILS").
		Yield("DETAILS", 12).Yield("USE", 0)
	row := func(what, cid string, current bool, other string, details ...string) {
		if current {
			other = "current"
		}
		table.Row(what, cid, other, strings.Join(details, ", "))
	}
	for _, vm := range v.VMs {
		row("VM", vm.CID, vm.Current, "is replaced", vm.details()...)
	}
	for _, d := range v.Disks {
		switch {
		case d.Kept != nil:
			row("disk", d.CID, false, "kept", fmt.Sprintf("%d MiB", d.Size), "since "+Moment(*d.Kept), d.Why)
		case d.Name != "":
			row("disk", d.CID, false, "named "+d.Name, fmt.Sprintf("%d MiB", d.Size))
		default:
			row("disk", d.CID, d.Current, "unused", fmt.Sprintf("%d MiB", d.Size))
		}
	}
	for _, s := range v.Snapshots {
		row("snapshot", s.CID, false, "kept", "of "+s.Disk, "taken "+Moment(s.Taken))
	}
	for _, s := range v.Stemcells {
		row("stemcell", s.CID, s.Current, "unused", s.Name+"/"+s.Version)
	}
	for _, r := range v.Releases {
		row("release", "-", r.Current, "", r.Name+"/"+r.Version)
	}
	for _, l := range v.Leftovers {
		row("leftover", "-", false, "unknown", l.Method+" "+l.ID)
	}
	table.Print()
	fmt.Fprintf(out, "\n%s\n", v.ending())
}

func (vm vmView) details() []string {
	var list []string
	for _, d := range []struct{ name, value string }{{"agent ", vm.AgentID}, {"group ", vm.Group}, {"at ", vm.Address}} {
		if d.value != "" {
			list = append(list, d.name+d.value)
		}
	}
	return list
}

// ending describes the end of the last deploy, according to the state.
func (v State) ending() string {
	text := "No deploy is recorded as finished"
	if v.Finished {
		text = "The last deploy finished"
		if v.Deployed != nil {
			text += " " + Moment(*v.Deployed)
		}
	}
	if v.Stopped {
		text += "; the jobs were stopped on purpose"
	}
	return text + "."
}

// Leftover is a call with an unknown result, as --json prints it.
type Leftover struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"`
	Started time.Time `json:"started"`
	CID     string    `json:"cid,omitempty"`
	AgentID string    `json:"agent_id,omitempty"`
	Disk    string    `json:"disk,omitempty"` // the copied or changed disk
	Size    int       `json:"size,omitempty"` // MiB
	Why     string    `json:"why"`
	sought  string    // what to look for in the cloud
}

// LeftoversOf returns the calls of a state with an unknown result.
func LeftoversOf(st state.State) []Leftover {
	list := []Leftover{}
	for _, l := range st.Unsettled("") {
		list = append(list, Leftover{l.ID, l.Method, l.Started, l.CID, l.AgentID, l.Disk, l.Size, l.Why, l.Sought()})
	}
	return list
}

// Leftovers prints calls with an unknown outcome.
func Leftovers(out *Writer, list []Leftover) {
	for _, l := range list {
		fmt.Fprintf(out, "%s  %s, started %s\n    look for: %s\n    %s\n", l.ID, l.Method, Moment(l.Started), l.sought, l.Why)
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no leftovers")
	}
}

// Backup is an earlier version of a state, as --json prints it.
type Backup struct {
	Serial   int       `json:"serial"`
	Written  time.Time `json:"written"`
	By       string    `json:"by,omitempty"`      // user@host; empty: unknown
	Command  string    `json:"command,omitempty"` // without values of flags
	Path     string    `json:"path"`
	Present  bool      `json:"present"`  // the state file is still this version
	Finished bool      `json:"finished"` // the deploy that wrote it had finished
	Owned    []string  `json:"owned"`
	// Instances are those of a deployment with several, of which it is a version.
	Instances []string `json:"instances,omitempty"`
	Only      []string `json:"only_here,omitempty"` // CIDs that no later version records, and that were not deleted
	Error     string   `json:"error,omitempty"`     // why it cannot be restored
}

// Backups prints earlier versions of a state as a table.
func Backups(out *Writer, views []Backup) {
	if len(views) == 0 {
		fmt.Fprintln(out, "No backups")
		return
	}
	table := NewTable(out, "SERIAL", "WRITTEN", "BY", "COMMAND", "DEPLOY", "RECORDS").
		Yield("RECORDS", 16).Yield("COMMAND", 12).Yield("DEPLOY", 0).Yield("BY", 0).Yield("COMMAND", 0).Yield("RECORDS", 0)
	for _, v := range views {
		deploy := "unfinished"
		if v.Finished {
			deploy = "finished"
		}
		table.Row(strconv.Itoa(v.Serial), Moment(v.Written), cmp.Or(v.By, "-"), cmp.Or(v.Command, "-"), deploy, v.records())
	}
	table.Print()
}

// counts returns how many instances a version has, and how much of each kind it records.
func (v Backup) counts() string {
	text := fmt.Sprintf("%d instances", len(v.Instances))
	if len(v.Instances) == 1 {
		text = "1 instance"
	}
	for _, kind := range []string{"VM", "disk", "snapshot"} {
		n := 0
		for _, owned := range v.Owned {
			if strings.HasPrefix(owned, kind+" ") {
				n++
			}
		}
		switch {
		case n == 1:
			text += ", 1 " + kind
		case n > 1:
			text += fmt.Sprintf(", %d %ss", n, kind)
		}
	}
	return text
}

func (v Backup) records() string {
	records := strings.Join(v.Owned, ", ")
	if len(v.Instances) > 0 {
		records = v.counts()
	}
	switch {
	case v.Error != "":
		return "cannot be read: " + v.Error
	case records == "":
		records = "nothing"
	}
	if len(v.Only) > 0 {
		records += " (only here: " + strings.Join(v.Only, ", ") + ")"
	}
	if v.Present {
		records += " (the current version)"
	}
	return records
}
