// Package about has the commands about the program itself and its machine: version,
// formats, doctor, explain, help.
package about

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"bootstrap/addresses"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/kept"
	"bootstrap/fleet/queue"
	"bootstrap/fleet/report"
	"bootstrap/fleet/rollout"
	"bootstrap/state"
	"bootstrap/templates"
)

// Program has the version of this program and its parts. A field that the build did not
// record is empty.
type Program struct {
	Version  string  `json:"version"`            // version of the module; "(devel)" without version control
	Commit   string  `json:"commit,omitempty"`   // the complete hash
	Date     string  `json:"date,omitempty"`     // date of the commit, as RFC 3339
	Modified *bool   `json:"modified,omitempty"` // whether the program has changes that are not in the commit
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
	Ruby     string  `json:"ruby,omitempty"` // version of the embedded Ruby
	Formats  Formats `json:"formats"`
}

// Formats has the number of each format of files that outlive a run. A newer format is
// refused with an error that names it.
type Formats struct {
	State       int `json:"state"`        // format of the key bootstrap in a state file
	Plan        int `json:"plan"`         // format of plan --out
	Kept        int `json:"kept"`         // format of ~/.bosh/INSTALLATION_ID
	JSON        int `json:"json"`         // format of --json and --events
	FleetRecord int `json:"fleet_record"` // format of the record of a fleet's run
	FleetReport int `json:"fleet_report"` // format of fleet report --json
	FleetTables int `json:"fleet_tables"` // format of the tables that workers share
	Addresses   int `json:"addresses"`    // format of the address ledger
}

// Read returns the values that the build recorded.
func Read() Program {
	p := Program{
		Version: cli.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Ruby: templates.EmbeddedVersion(),
		Formats: Formats{
			State: state.Format, Plan: deployer.PlanFormat, Kept: kept.Format, JSON: ui.Format, FleetRecord: rollout.Format,
			FleetReport: report.Format, FleetTables: queue.Format, Addresses: addresses.Format,
		},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return p
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			p.Commit = s.Value
		case "vcs.time":
			p.Date = s.Value
		case "vcs.modified":
			modified := s.Value == "true"
			p.Modified = &modified
		}
	}
	return p
}

// Text describes the program for people, in several lines.
func (p Program) Text() string {
	commit := "unknown: built without version control"
	if p.Commit != "" {
		commit = fmt.Sprintf("%s of %s", p.Commit, p.Date)
		if p.Modified != nil && *p.Modified {
			commit += ", with changes that are not in it"
		}
	}
	f := p.Formats
	var formats []string
	for _, n := range []struct {
		name   string
		number int
	}{
		{"state", f.State}, {"plan", f.Plan}, {"kept", f.Kept}, {"json", f.JSON}, {"fleet record", f.FleetRecord},
		{"fleet report", f.FleetReport}, {"fleet tables", f.FleetTables}, {"addresses", f.Addresses},
	} {
		formats = append(formats, fmt.Sprintf("%s %d", n.name, n.number))
	}
	return fmt.Sprintf("bootstrap %s\ncommit    %s\nplatform  %s/%s, built with %s\nRuby      %s\nformats   %s\n",
		p.Version, commit, p.OS, p.Arch, p.Go, cmp.Or(p.Ruby, "none is embedded: templates need --ruby PATH"), strings.Join(formats, ", "))
}
