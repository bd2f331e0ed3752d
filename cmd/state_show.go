package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/state"
)

func newStateShow(c *console) *cobra.Command {
	var choice stateChoice
	cmd := &cobra.Command{
		Use:   "show {MANIFEST | --state FILE}",
		Short: "Print what the state file records",
		Long: `Show prints what the state file records, without locking it or asking the cloud:
see status for what is true of it. With --json, it prints one object.`,
		Example: "  bootstrap state show manifest.yml\n  bootstrap state show --state manifest-state.json --json",
		RunE: func(_ *cobra.Command, args []string) error {
			path, _, err := choice.split(args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			opts, err := c.stateOptions(0)
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

// readState reads a state that must be there.
func readState(path, home string) (state.State, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return state.State{}, &state.MissingError{Path: path}
	}
	return state.Read(path, home)
}

// stateView is a state as show prints it: what is where create-env looks for
// it and what is under our own key, side by side.
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
	Finished       bool           `json:"finished"` // the last deploy was recorded as such
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
		return c.printLines([]any{view})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "State file %s, serial number %d\nInstallation %s\n", view.Path, view.Serial, view.InstallationID)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nWHAT\tCID\tUSE\tDETAILS\n")
	row := func(what, cid string, current bool, other string, details ...string) {
		if current {
			other = "current"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", what, cid, other, strings.Join(details, ", "))
	}
	for _, vm := range view.VMs {
		row("VM", vm.CID, vm.Current, "makes way", vm.details()...)
	}
	for _, d := range view.Disks {
		if d.Kept != nil {
			row("disk", d.CID, false, "kept", fmt.Sprintf("%d MiB", d.Size), "since "+d.Kept.Format(time.DateOnly), d.Why)
		} else {
			row("disk", d.CID, d.Current, "unused", fmt.Sprintf("%d MiB", d.Size))
		}
	}
	for _, s := range view.Snapshots {
		row("snapshot", s.CID, false, "kept", "of "+s.Disk, "taken "+s.Taken.Format(time.DateOnly))
	}
	for _, s := range view.Stemcells {
		row("stemcell", s.CID, s.Current, "unused", s.Name+"/"+s.Version)
	}
	for _, r := range view.Releases {
		row("release", "-", r.Current, "", r.Name+"/"+r.Version)
	}
	for _, l := range view.Leftovers {
		row("leftover", "-", false, "unknown", l.Method+" "+l.ID)
	}
	_ = table.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "\n%s\n", view.ending())
	return c.printRaw([]byte(b.String()))
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

// ending words how the last deploy went, as far as the state tells.
func (v stateView) ending() string {
	text := "No deploy is recorded as finished"
	if v.Finished {
		text = "The last deploy finished"
		if v.Deployed != nil {
			text += " " + v.Deployed.Format(time.RFC3339)
		}
	}
	if v.Stopped {
		text += "; the jobs were stopped on purpose"
	}
	return text + "."
}
