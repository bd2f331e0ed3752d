package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/agent"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// world has all inputs of a decision.
type world struct {
	w  *wanted
	st *state.State
	f  *Facts
}

// changes returns every kind of change, for a deployment that needs none.
func changes() map[string]func(world) {
	silent := func(x world) { *x.f = Facts{HasVM: true, AgentErr: errors.New("refused")} }
	return map[string]func(world){
		"nothing": func(world) {},
		"no VM":   func(x world) { *x.st = state.State{}; *x.f = Facts{} },
		"property, no post-deploy": func(x world) {
			x.w.Applied["property: web port"] = "z"
			x.w.NewScripts = startScripts()
			x.w.Asked.SkipPostDeploy = true
		},
		"VM gone":          func(x world) { *x.f = Facts{AgentErr: errors.New("refused")} },
		"property":         func(x world) { x.w.Applied["property: web port"] = "z" },
		"package":          func(x world) { x.w.Applied["package: page"] = "z"; x.w.Missing, x.w.MissingNew = 1, 2 },
		"tags":             func(x world) { x.w.Applied[PartTags] = "z" },
		"password":         func(x world) { x.w.Made[AgentPrefix+PartPassword] = "z" },
		"comment":          func(x world) { x.w.Digest = "2" },
		"stemcell":         func(x world) { x.w.Stemcell = "os/2" },
		"light stemcell":   func(x world) { x.w.Stemcell, x.w.Light = "os/2", true },
		"cloud_properties": func(x world) { x.w.Made["cloud_properties of resource pool: instance_type"] = "z" },
		"recreate":         func(x world) { x.w.Asked.Recreate = true },
		"skip drain":       func(x world) { x.w.Asked.SkipDrain = true },
		"interrupted":      func(x world) { x.st.CurrentManifestSHA, x.st.Releases = "", nil },
		"nothing applied":  func(x world) { x.st.CurrentManifestSHA, x.st.Own.Applied, x.f.Now = "", nil, agent.State{} },
		"silent, fix":      func(x world) { silent(x); x.w.Asked.Fix = true },
		"never reached":    func(x world) { silent(x); x.st.Own.Reached = false },
		"failing": func(x world) {
			x.f.Now.JobState = "failing"
			x.f.Now.Processes = []agent.Process{{Name: "web", State: "failing"}}
		},
		"jobs down": func(x world) { x.f.Now.JobState, x.f.Now.Processes = "stopped", nil },
		"stopped":   func(x world) { x.st.Own.Stopped = true },
		"stopped, nothing runs": func(x world) {
			x.st.Own.Stopped = true
			x.f.Now.JobState, x.f.Now.Processes = "stopped", []agent.Process{{Name: "web", State: "unknown"}}
		},
		"disk grows":     func(x world) { wantDisk(x).Size = 128 },
		"disk type":      func(x world) { wantDisk(x).CloudProperties = map[string]any{"type": "fast"} },
		"disk shrinks":   func(x world) { wantDisk(x).Size, x.w.Asked.AllowShrink = 32, true },
		"no disk wanted": func(x world) { x.w.Disk = nil },
		"not mounted":    func(x world) { x.f.Mounted = nil },
		"first disk":     func(x world) { x.st.Disks, x.st.CurrentDiskID, x.f.Mounted = nil, "", nil },
		"recreate disks": func(x world) { x.w.Asked.RecreateDisks = true },
		"migration begun": func(x world) {
			x.w.Asked.RecreateDisks = true
			x.st.Disks = append(x.st.Disks, state.Disk{ID: "e", CID: "disk-9", Size: 64, CloudProperties: map[string]any{"type": "slow"}})
			x.f.Mounted = append(x.f.Mounted, "disk-9")
		},
		"keep old disk":   func(x world) { x.w.Asked.KeepOldDisk = true },
		"unused disk":     func(x world) { x.st.Disks = append(x.st.Disks, state.Disk{ID: "u", CID: "disk-8"}) },
		"unused stemcell": func(x world) { x.st.Stemcells = append(x.st.Stemcells, state.Stemcell{ID: "u", CID: "sc-8"}) },
		"leftover": func(x world) {
			x.st.Own.Leftovers = append(x.st.Own.Leftovers, state.Leftover{Intent: state.Intent{Method: "delete_vm", CID: "vm-8"}})
		},
		"half swapped":          func(x world) { x.st.Own.Swap = &state.OldVM{CID: "vm-0"} },
		"half swapped, answers": func(x world) { x.st.Own.Swap = &state.OldVM{CID: "vm-0"}; x.f.OldAnswers = true },
		"scripts of what runs, property": func(x world) {
			x.w.Applied["property: web port"] = "z"
			x.w.OldScripts = stopScripts()
		},
		"scripts and checks of what is new, property": func(x world) {
			x.w.Applied["property: web port"] = "z"
			x.w.NewScripts, x.w.Checks = startScripts(), true
		},
		"delete-create":      func(x world) { x.w.Strategy = "delete-create" },
		"create-swap-delete": func(x world) { x.w.Strategy = "create-swap-delete" },
		"API 1":              func(x world) { x.w.API = 1 },
		"dynamic address":    func(x world) { x.w.Dynamic = true },
		"unknown address":    func(x world) { x.w.Dynamic, x.w.NoAddress = true, true },
		"snapshot":           func(x world) { x.w.Snapshot = true },
		"address kept":       addresses(network.Bind),
		"address new":        addresses(network.Reserve),
		"address of another network": func(x world) {
			addresses(network.Bind)(x)
			x.w.Addresses[0].Before = &network.Reservation{Network: "old"}
			x.w.Addresses[0].Reason = network.Reason{Kind: network.Renamed, From: "old", To: "default"}
		},
		"address left": addresses(network.Bind, network.Release),
		"address changes": func(x world) {
			addresses(network.Reserve, network.Hold)(x)
			x.w.Made["network default: ip"] = "z"
		},
		"address of the IaaS": addresses(network.Ask),
		"dns":                 func(x world) { x.w.DNS = true },
		"named disk":          func(x world) { named(x, "vm-1") },
		"named disk, new": func(x world) {
			named(x, "vm-1")
			named(x, "")
			x.st.Own.NamedDisks = x.st.Own.NamedDisks[:len(x.st.Own.NamedDisks)-1]
		},
		"named disk, type": func(x world) {
			named(x, "vm-1")
			x.w.Named[0].Pool.Size = 96
		},
		"named disk, not attached": func(x world) { named(x, "vm-0") },
		"named disk, unwanted":     func(x world) { named(x, "vm-1"); x.w.Named = x.w.Named[1:] },
		"named disk, unwanted and not attached": func(x world) {
			named(x, "")
			x.w.Named = x.w.Named[1:]
		},
		"named disk, orphan attached": func(x world) {
			x.st.Own.Orphans = append(x.st.Own.Orphans, state.Orphan{CID: "disk-7", Name: "data", VM: "vm-1"})
		},
		"named disk, forgotten":        func(x world) { x.st.Own.GoneDiskVM = "vm-1" },
		"named disk, mounted by a job": func(x world) { named(x, "vm-1"); x.f.Mounted = append(x.f.Mounted, "disk-n1") },
		"dns of several":               func(x world) { x.w.DNS, x.w.DNSFirst = true, true },
	}
}

// named adds a named disk to the state, attached to a VM, and to the manifest.
func named(x world, vm string) {
	n := len(x.st.Disks)
	id := fmt.Sprintf("n%d", n)
	pool := manifest.DiskPool{Size: 64, CloudProperties: map[string]any{}}
	x.st.Disks = append(x.st.Disks, state.Disk{ID: id, CID: "disk-" + id, Size: pool.Size, CloudProperties: pool.CloudProperties})
	x.st.SetNamed("data"+id, id, vm)
	x.w.Named = append(x.w.Named, manifest.NamedDisk{Name: "data" + id, Pool: pool})
}

// addresses returns a change of addresses: 10.0.0.1 and the next ones get these actions.
func addresses(actions ...network.Action) func(world) {
	return func(x world) {
		x.w.Addresses = nil
		for i, action := range actions {
			block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 32)
			x.w.Addresses = append(x.w.Addresses, network.Change{
				Action: action, Reservation: network.Reservation{Block: block, Network: "default"}, Reason: network.Reason{Kind: network.New},
			})
		}
	}
}

// wantDisk returns the wanted disk. If there is none, it adds one.
func wantDisk(x world) *manifest.DiskPool {
	if x.w.Disk == nil {
		x.w.Disk = &manifest.DiskPool{Size: 64}
	}
	return x.w.Disk
}

// decided returns the decision after some changes of an unchanged deployment.
func decided(changes ...func(world)) (Decision, error) {
	w, st, f := same(), deployed(), well()
	for _, c := range changes {
		c(world{&w, &st, &f})
	}
	settled, _ := Settled(st, f)
	return decide(w, settled, f)
}

func lines(d Decision, err error) string {
	if err != nil {
		return "  refused: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, c := range d.Changes {
		if c.Action != Keep {
			fmt.Fprintf(&b, "  %s %s: %s\n", c.Action, c.What, Words(c.Why))
		}
	}
	for i, s := range Steps(d) {
		fmt.Fprintf(&b, "  %2d %s", i+1, s)
		if s.Down {
			b.WriteString(" (down)")
		}
		if len(s.Calls)+len(s.Maybe) > 0 {
			b.WriteString(" [" + strings.Join(s.Calls, ", ") + "]")
		}
		if len(s.Maybe) > 0 {
			b.WriteString(" maybe [" + strings.Join(s.Maybe, ", ") + "]")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The golden file contains the steps of every change.
func TestSteps(t *testing.T) {
	all := changes()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(name + "\n" + lines(decided(all[name])))
	}
	golden.Assert(t, b.String(), "steps.golden")
}

// The golden file contains the steps of every pair of changes, one line each.
func TestStepsOfPairs(t *testing.T) {
	all := changes()
	names := slices.Sorted(maps.Keys(all))
	var b strings.Builder
	for i, one := range names {
		for _, other := range names[i+1:] {
			d, err := decided(all[one], all[other])
			fmt.Fprintf(&b, "%s + %s: ", one, other)
			if err != nil {
				fmt.Fprintln(&b, "refused:", err)
				continue
			}
			var kinds []string
			for _, s := range Steps(d) {
				text := string(s.Kind)
				if s.Down {
					text += "*"
				}
				kinds = append(kinds, text)
			}
			fmt.Fprintln(&b, strings.Join(kinds, ", "))
		}
	}
	golden.Assert(t, b.String(), "pairs.golden")
}

// In every list of steps, the deployment is marked as unfinished before anything is
// stopped or deleted, stopped jobs are started if they should run, the deployment is
// recorded at the end, and no step occurs twice.
func TestEveryList(t *testing.T) {
	t.Parallel()
	all := changes()
	names := slices.Sorted(maps.Keys(all))
	for _, one := range names {
		for _, other := range names {
			d, err := decided(all[one], all[other])
			if err != nil {
				continue
			}
			steps := Steps(d)
			at := func(k Kind) int { return slices.IndexFunc(steps, func(s Step) bool { return s.Kind == k }) }
			if d.Nothing() != (len(steps) == 0) {
				t.Errorf("%s + %s: %d steps", one, other, len(steps))
			}
			if len(steps) > 30 {
				t.Errorf("%s + %s: %d steps", one, other, len(steps))
			}
			seen := map[string]bool{}
			for i, s := range steps {
				if seen[s.String()+s.With.Disk] {
					t.Errorf("%s + %s: %s twice", one, other, s)
				}
				seen[s.String()+s.With.Disk] = true
				touching := s.Down || s.Kind == DeleteVM || s.Kind == CreateVM || s.Of == StopJobs
				if touching && (at(ClearRecord) < 0 || at(ClearRecord) > i) {
					t.Errorf("%s + %s: %s before %s", one, other, s, ClearRecord)
				}
			}
			stops := slices.IndexFunc(steps, func(s Step) bool { return s.Of == StopJobs })
			if stops >= 0 && !d.Stopped && at(StartProcesses) < stops {
				t.Errorf("%s + %s: the jobs stay stopped", one, other)
			}
			if at(ClearRecord) >= 0 && at(Record) < at(ClearRecord) {
				t.Errorf("%s + %s: no %s at the end", one, other, Record)
			}
			if first := slices.IndexFunc(steps, func(s Step) bool { return s.Down && slices.ContainsFunc(s.Calls, isCPI) }); first >= 0 &&
				(at(CheckCloud) < 0 || at(CheckCloud) > first) && (at(ConnectCPI) < 0 || at(ConnectCPI) > first) {
				t.Errorf("%s + %s: the CPI is installed while the service is down", one, other)
			}
		}
	}
}

// The reasons in a line of a plan do not repeat the name of its object.
func TestLinesNameTheirThingOnce(t *testing.T) {
	t.Parallel()
	all := changes()
	for one := range all {
		for other := range all {
			d, err := decided(all[one], all[other])
			if err != nil {
				continue
			}
			for _, c := range d.Changes {
				same := func(word string) bool { return strings.EqualFold(strings.Trim(word, ",;:"), c.What) }
				if why := Words(c.Why); slices.ContainsFunc(strings.Fields(why), same) {
					t.Errorf("%s + %s: %s %s: %s", one, other, c.Action, c.What, why)
				}
			}
		}
	}
}

// A plan of format 2, with stopping and starting as one step each, equals the plan that
// is made again.
func TestFolded(t *testing.T) {
	t.Parallel()
	d, err := decided(changes()["scripts of what runs, property"])
	if err != nil {
		t.Fatal(err)
	}
	made := Of(d)
	old := made
	old.Steps = []Step{
		{Kind: RenderJobs}, {Kind: Upload}, {Kind: Prepare}, {Kind: ClearRecord},
		{Kind: StopJobs, Name: "vm-1", Down: true}, {Kind: Apply, Down: true}, {Kind: StartJobs, Down: true}, {Kind: Record},
	}
	if what := Differs(old, made.Folded()); what != "" {
		t.Error(what)
	}
	if Differs(old, made) == "" {
		t.Error("a plan without the rows is like one with them")
	}
	if rows := made.View().Outage(); !slices.Equal(rows, []string{"stop jobs", "apply", "start jobs"}) {
		t.Errorf("%q", rows)
	}
}

// The tags that a deploy has set which only created the VM are not set again, unless they
// have changed since.
func TestTagged(t *testing.T) {
	t.Parallel()
	w := Wishes{Applied: map[string]string{PartTags: "new"}}
	for tagged, want := range map[string]bool{"": true, "old": true, "new": false} {
		var st state.State
		st.Own.AgentID, st.Own.Tagged = "agent", tagged
		d := Decision{}
		d.addSmall(w, st)
		if sets := d.on(Tags) == Update; sets != want {
			t.Errorf("tags %q were set: sets them again: %v", tagged, sets)
		}
	}
}

// A deploy that only creates does the first steps of the one that creates, up to
// compiling, and nothing to a VM that exists.
func TestCreateOnly(t *testing.T) {
	t.Parallel()
	kinds := func(d Decision) (list []Kind) {
		for _, s := range Steps(d) {
			list = append(list, s.Kind)
		}
		return list
	}
	for name, change := range changes() {
		whole, err := decided(change)
		if err != nil {
			continue
		}
		d, err := decided(change, func(x world) { x.w.Asked.CreateOnly = true })
		if err != nil || d.Starts() {
			t.Errorf("%s: it starts jobs, or fails: %v", name, err)
		}
		var want []Kind
		if whole.On(VM) == Create {
			want = slices.DeleteFunc(kinds(whole), func(k Kind) bool { return k == RenderAgain })
			want = append(want[:slices.Index(want, Compile)+1], RecordTags)
		}
		if got := kinds(d); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
}
