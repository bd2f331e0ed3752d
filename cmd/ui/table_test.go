package ui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"gotest.tools/v3/golden"

	"bootstrap/deployer/observe"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/state"
)

// tables prints all tables and lists of this package.
func tables(out *Writer) {
	at := time.Date(2026, 11, 22, 3, 44, 0, 0, time.UTC)
	later, yes := at.Add(3*time.Minute), true
	disks := []observe.SeenDisk{
		{CID: "disk-22fb44df3bbc9a28", Size: 65536, Use: observe.DiskCurrent, Mounted: &yes},
		{CID: "disk-c3a1b6d0e92f7715", Size: 32768, Use: observe.DiskOrphan, Since: &at, Why: "the manifest asked for no persistent disk any more"},
	}
	Condition(out, &observe.Condition{
		StateFile: "/home/me/deployments/production/bosh-state.json", Deployment: "bosh", Group: "bosh",
		VM: &observe.SeenVM{CID: "i-0a1b2c3d4e5f60718"}, Agent: &observe.SeenAgent{Answers: true, Address: "10.0.0.6:6868"},
		JobState: "running", Jobs: []string{"nats", "postgres", "blobstore", "director", "health_monitor"},
		Processes: []observe.SeenProcess{{Name: "director_scheduler", State: "running", Uptime: 90061, CPU: 1.5, Memory: 123456, Percent: 3}, {Name: "nats", State: "starting"}},
		Releases:  []observe.SeenRecord{{Name: "bosh", Version: "280.1.2"}, {Name: "bosh-aws-cpi", Version: "105.0.0"}},
		Finished:  true, LastDeploy: &at, Disks: disks, Well: true,
		Certificates: []observe.Certificate{{What: "CA of the agent", Subject: "CN=default.bosh-ca.bosh-internal", Names: []string{"10.0.0.6", "director.example.com"}, NotAfter: at, DaysLeft: 9}},
	}, later)
	fmt.Fprintln(out)
	Disks(out, disks)
	fmt.Fprintln(out)
	list := NewAddresses(out)
	list.Add(observe.HeldAddress{Address: "10.0.0.6", Network: "default", Scope: "zone-1", Deployment: "production-bosh", Instance: "bosh/0", Type: "static", VM: "i-0a1b2c3d4e5f60718", Since: &at})
	list.Print()
	fmt.Fprintln(out)
	LedgerCheck(out, &observe.LedgerCheck{
		Place:   "/home/me/.bosh/addresses.db",
		Subnets: []observe.Subnet{{Network: "default", Range: "10.0.0.0/24", Zones: []string{"europe-west-1a", "europe-west-1b"}, Free: 200, Total: 253, StaticFree: 10, Static: 20}},
		Needs:   []observe.Need{{Network: "default", Needed: 3, Static: 1, Swap: 1, Held: 1}},
	})
	fmt.Fprintln(out)
	for _, c := range []observe.Check{
		{Name: "home", Result: observe.CheckOK, Detail: "/home/me/.bosh is writable"},
		{Name: "space", Result: observe.CheckWarn, Detail: "/home/me/.bosh has 900 MiB free; /tmp has 40000 MiB free", Remedy: "free some, for example with: bootstrap cache prune --older-than 30d"},
	} {
		Check(out, c)
	}
	fmt.Fprintln(out)
	r := &rollout.Record{ID: "7", Name: "shops", Action: "canary", Started: at, Ended: &later, Result: rollout.Failed, By: state.Holder{User: "me", Host: "laptop"}, Numbers: rollout.Numbers{Members: 3, ToDo: 2, Canaries: 1, MaxInFlight: 1}, Members: []*rollout.Member{
		{Name: "shop-hamburg", Candidate: true, Changes: []string{"replace vm", "create jobs"}, Planned: []string{"stop jobs", "delete vm", "create vm", "wait for agent", "start jobs"}},
		{Name: "shop-berlin", Changes: []string{"update in place jobs"}, Planned: []string{"stop jobs", "apply", "start jobs"}},
		{Name: "shop-zürich", Verdict: schedule.Unchanged},
	}}
	FleetPlan(out, r)
	fmt.Fprintln(out)
	r.Members[0].Verdict, r.Members[0].Started, r.Members[0].Ended, r.Members[0].Down = schedule.Done, &at, &later, 61
	r.Members[1].Verdict, r.Members[1].Reason = schedule.Failed, "the jobs do not run: postgres is failing"
	FleetStatus(out, r, false)
}

// On a terminal, tables fit its width: the least important columns are shortened or left
// out, and names and CIDs are complete. Elsewhere nothing is missing.
func TestTables(t *testing.T) {
	var whole bytes.Buffer
	tables((&Redactor{}).Writer(&whole))
	golden.Assert(t, whole.String(), "tables.txt")
	for _, columns := range []int{40, 80, 100, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			var out bytes.Buffer
			tables((&Redactor{}).Writer(&out).Within(func() int { return columns }))
			golden.Assert(t, out.String(), fmt.Sprintf("tables.%d.txt", columns))
			for _, name := range []string{"i-0a1b2c3d4e5f60718", "disk-22fb44df3bbc9a28", "disk-c3a1b6d0e92f7715", "director_scheduler", "10.0.0.6", "production-bosh", "shop-hamburg", "/home/me/deployments/production/bosh-state.json"} {
				if !strings.Contains(out.String(), name) {
					t.Errorf("%s is not whole", name)
				}
			}
			if columns == 200 && out.String() != whole.String() {
				t.Error("something is missing where there is room for all")
			}
		})
	}
}

// Whatever a table contains, it is not wider than the terminal, unless the columns that
// do not yield are.
func FuzzTable(f *testing.F) {
	f.Add("a name", "some text", "表", 40)
	f.Add("x", strings.Repeat("long ", 100), "\x1b[31m", 20)
	f.Add("", "", "", 1)
	f.Fuzz(func(t *testing.T, name, text, other string, terminal int) {
		var out bytes.Buffer
		w := (&Redactor{}).Writer(&out).Within(func() int { return terminal })
		table := NewTable(w, "NAME", "TEXT", "OTHER").Yield("TEXT", 12).Yield("OTHER", 0).Yield("TEXT", 0)
		table.Row(name, text, other)
		table.Print()
		kept := max(runewidth.StringWidth(cell(w, name)), len("NAME"))
		if most := max(columns(func() int { return terminal }), kept+gap+1); !strings.Contains(out.String(), cell(w, name)) {
			t.Errorf("%q is not in %q", name, out.String())
		} else {
			for line := range strings.Lines(out.String()) {
				if width := runewidth.StringWidth(strings.TrimRight(line, " \n")); width > most {
					t.Errorf("%d wide where %d is room: %q", width, most, line)
				}
			}
		}
	})
}
