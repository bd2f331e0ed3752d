package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/state"
	"bootstrap/state/file"
)

func newStateShow(c *console) *cobra.Command {
	var choice stateChoice
	cmd := &cobra.Command{
		Use:   "show {MANIFEST | --state FILE}",
		Short: "Print what the state file records",
		Long: `Show prints what the state file records, without locking it or asking the cloud;
bootstrap status asks the agent. With --json, it prints one object.`,
		Example: "  bootstrap state show manifest.yml\n  bootstrap state show --state manifest-state.json --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := c.split(&choice, cmd, args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			opts, err := c.stateOptions(path, 0)
			if err != nil {
				return err
			}
			st, err := readState(path, opts.Home)
			if err != nil {
				return err
			}
			return c.printState(path, st)
		},
	}
	choice.flags(cmd.Flags(), false)
	return cmd
}

// readState reads a state, which must exist.
func readState(path, home string) (state.State, error) {
	st, found, err := file.Read(path, home)
	if err == nil && !found {
		err = &file.MissingError{Path: path}
	}
	return st, err
}

// stateView is a state as show prints it: the keys of create-env and those under
// our own key.
type stateView struct {
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
	Leftovers      []leftoverView `json:"leftovers"`
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
	Size    int        `json:"size"` // MiB
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

func viewOf(path string, st state.State) stateView {
	v := stateView{
		Path: path, Serial: st.Own.Serial, DirectorID: st.DirectorID, InstallationID: st.InstallationID,
		VMs: []vmView{}, Disks: []diskView{}, Stemcells: []nameView{}, Releases: []nameView{},
		Deployed: st.Own.Deployed, Finished: st.CurrentManifestSHA != "", Stopped: st.Own.Stopped,
		Leftovers: leftoversOf(st),
	}
	if st.CurrentVMCID != "" {
		v.VMs = append(v.VMs, vmView{st.CurrentVMCID, true, st.Own.AgentID, st.Own.Group, st.Own.Address})
	}
	if old := st.Own.Swap; old != nil {
		v.VMs = append(v.VMs, vmView{CID: old.CID, AgentID: old.AgentID})
	}
	for _, d := range st.Disks {
		v.Disks = append(v.Disks, diskView{CID: d.CID, Size: d.Size, Current: d.ID == st.CurrentDiskID})
	}
	for _, o := range st.Own.Orphans {
		v.Disks = append(v.Disks, diskView{CID: o.CID, Size: o.Size, Kept: &o.Since, Why: o.Why})
	}
	for _, s := range st.Own.Snapshots {
		v.Snapshots = append(v.Snapshots, snapshotView(s))
	}
	for _, s := range st.Stemcells {
		v.Stemcells = append(v.Stemcells, nameView{s.CID, s.Name, s.Version, s.ID == st.CurrentStemcellID})
	}
	for _, r := range st.Releases {
		v.Releases = append(v.Releases, nameView{"", r.Name, r.Version, true})
	}
	return v
}

func (c *console) printState(path string, st state.State) error {
	view := viewOf(path, st)
	if c.json {
		printLines(c, "state", []stateView{view})
		return nil
	}
	c.print(view.print)
	return nil
}

func (v stateView) print(out *ui.Writer) {
	fmt.Fprintf(out, "State file %s, serial number %d\nInstallation %s\n\n", v.Path, v.Serial, v.InstallationID)
	table := ui.NewTable(out, "WHAT", "CID", "USE", "DETAILS").
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
		if d.Kept != nil {
			row("disk", d.CID, false, "kept", fmt.Sprintf("%d MiB", d.Size), "since "+ui.Moment(*d.Kept), d.Why)
		} else {
			row("disk", d.CID, d.Current, "unused", fmt.Sprintf("%d MiB", d.Size))
		}
	}
	for _, s := range v.Snapshots {
		row("snapshot", s.CID, false, "kept", "of "+s.Disk, "taken "+ui.Moment(s.Taken))
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

// ending describes how the last deploy ended, according to the state.
func (v stateView) ending() string {
	text := "No deploy is recorded as finished"
	if v.Finished {
		text = "The last deploy finished"
		if v.Deployed != nil {
			text += " " + ui.Moment(*v.Deployed)
		}
	}
	if v.Stopped {
		text += "; the jobs were stopped on purpose"
	}
	return text + "."
}
