package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/manifest"
	"bootstrap/state"
)

// deployed is the state of a deploy that succeeded.
func deployed() state.State {
	st := state.State{
		CurrentVMCID:       "vm-1",
		CurrentStemcellID:  "s",
		CurrentDiskID:      "d",
		CurrentManifestSHA: "digest",
		Disks:              []state.Disk{{ID: "d", CID: "disk-1", Size: 64, CloudProperties: map[string]any{"type": "slow"}}},
		Stemcells:          []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}},
		Releases:           []state.Release{{ID: "a", Name: "cpi", Version: "1"}, {ID: "b", Name: "web", Version: "1"}},
	}
	st.Own.AgentID, st.Own.Reached, st.Own.Salt = "agent-1", true, "salt"
	st.Own.Made = map[string]string{"cloud_properties of resource pool: instance_type": "a", "network default: ip": "b"}
	st.Own.Applied = map[string]string{"property: web port": "a", "template: web": "b", "release: web": "c", "package: page": "d", PartTags: "e", PartSpec: Digest("salt", PartSpec, "hash")}
	return st
}

// same returns wishes that equal the deployed state.
func same() wanted {
	st := deployed()
	delete(st.Own.Applied, PartSpec)
	return wanted{Wishes: Wishes{
		Digest: "digest", Group: "web", Stemcell: "os/1",
		Releases: []state.Release{{Name: "cpi", Version: "1"}, {Name: "web", Version: "1"}},
		Used:     map[string]bool{"web": true},
		Made:     st.Own.Made, Applied: st.Own.Applied,
		Disk: &manifest.DiskPool{Size: 64, CloudProperties: map[string]any{"type": "slow"}},
		API:  2,
	}}
}

// wanted has all inputs of a decision, except state and facts.
type wanted struct {
	Wishes
	Details
}

func decide(w wanted, st state.State, f Facts) (Decision, error) {
	c, err := Decide(w.Wishes, st, f)
	if err != nil {
		return Decision{}, err
	}
	return c.Decision(w.Details), nil
}

// well returns the facts of a VM that needs no change.
func well() Facts {
	f := Facts{Answers: true, HasVM: true, Mounted: []string{"disk-1"}}
	f.Now.Deployment, f.Now.JobState, f.Now.ConfigurationHash = "d", "running", "hash"
	f.Now.Processes = []agent.Process{{Name: "web", State: "running"}}
	return f
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type table struct {
		want  func(*wanted)
		state func(*state.State)
		facts func(*Facts)
		// plan lists the changes whose action is not keep: "what action: reason".
		// The reason may be a part of the real one.
		plan []string
	}
	silent := func(f *Facts) { *f = Facts{HasVM: true, AgentErr: errors.New("refused")} }
	newDeploy := []string{"stemcell create: not uploaded", "vm create: new", "disk create: new", "jobs create: the VM is new"}
	for name, c := range map[string]table{
		"nothing": {},
		"no VM":   {state: func(s *state.State) { *s = state.State{} }, facts: func(f *Facts) { *f = Facts{} }, plan: newDeploy},
		"first create_vm failed": {state: func(s *state.State) {
			*s = state.State{Stemcells: s.Stemcells}
		}, facts: func(f *Facts) { *f = Facts{} }, plan: newDeploy[1:]},
		"no process": {state: func(s *state.State) { s.Own.Processes = []string{"web"} }, facts: func(f *Facts) { f.Now.Processes = nil },
			plan: []string{"jobs update in place: the agent runs no process, but should run web"}},
		"property":      {want: func(w *wanted) { w.Digest = "2"; w.Applied["property: web port"] = "z" }, plan: []string{"jobs update in place: properties.port of job web changed"}},
		"property gone": {want: func(w *wanted) { w.Digest = "2"; delete(w.Applied, "property: web port") }, plan: []string{"jobs update in place: properties.port of job web changed"}},
		"package":       {want: func(w *wanted) { w.Applied["package: page"] = "z"; w.Missing = 1 }, plan: []string{"jobs update in place: package page changed", "packages create: 1 to compile while"}},
		"release": {want: func(w *wanted) {
			w.Releases[1].Version = "2"
			w.Applied["release: web"] = "z"
			w.Applied["template: web"] = "y"
		}, plan: []string{"jobs update in place: release web 1 -> 2; changed in it: job web"}},
		"release, by its content": {want: func(w *wanted) {
			w.ByContent = true
			w.Releases[1].Version, w.Applied["release: web"] = "2", "z"
		}, plan: []string{"state record: release web 1 -> 2"}},
		"release and its content": {want: func(w *wanted) {
			w.ByContent = true
			w.Releases[1].Version, w.Applied["release: web"], w.Applied["package: page"] = "2", "z", "z"
		}, plan: []string{"jobs update in place: release web 1 -> 2; changed in it: package page"}},
		"large release": {want: func(w *wanted) {
			w.Releases[1].Version = "2"
			for i := range 9 {
				w.Applied[fmt.Sprintf("package: p%d", i)] = "z"
			}
			w.Applied["template: web"] = "y"
		}, plan: []string{"jobs update in place: release web 1 -> 2; changed in it: job web, package p0, package p1, package p2, package p3 and 5 more"}},
		"release of the CPI":       {want: func(w *wanted) { w.Releases[0].Version = "2"; w.Digest = "2" }, plan: []string{"state record: the manifest changed, but nothing"}},
		"comment":                  {want: func(w *wanted) { w.Digest = "2" }, plan: []string{"state record: the manifest changed, but nothing"}},
		"tags":                     {want: func(w *wanted) { w.Digest = "2"; w.Applied[PartTags] = "z" }, plan: []string{"tags update in place: changed in the manifest"}},
		"stemcell":                 {want: func(w *wanted) { w.Stemcell = "os/2" }, plan: []string{"stemcell create: replaces os/1", "vm replace: stemcell 1 -> 2", "jobs create: the VM is new"}},
		"cloud_properties":         {want: func(w *wanted) { w.Made["cloud_properties of resource pool: instance_type"] = "z" }, plan: []string{"vm replace: cloud_properties of resource pool changed: instance_type", "jobs create"}},
		"network":                  {want: func(w *wanted) { w.Made["network default: ip"] = "z" }, plan: []string{"vm replace: network default changed: ip", "jobs create"}},
		"recreate":                 {want: func(w *wanted) { w.Asked.Recreate = true }, plan: []string{"vm replace: --recreate", "jobs create"}},
		"another tool, same":       {state: func(s *state.State) { s.Own = state.Own{} }, plan: []string{"state record: made by another tool"}},
		"another tool, other":      {state: func(s *state.State) { s.Own = state.Own{}; s.CurrentManifestSHA = "x" }, plan: []string{"vm replace: it is unknown what it was created from", "jobs create"}},
		"another tool, adopted":    {want: func(w *wanted) { w.Asked.AdoptVM = true }, state: func(s *state.State) { s.Own = state.Own{}; s.CurrentManifestSHA = "x" }, plan: []string{"jobs update in place: it is unknown what was applied last"}},
		"interrupted":              {state: func(s *state.State) { s.CurrentManifestSHA, s.Releases = "", nil }, plan: []string{"jobs update in place: the last deploy was not finished"}},
		"interrupted before apply": {state: func(s *state.State) { s.CurrentManifestSHA, s.Own.Applied = "", nil }, facts: func(f *Facts) { f.Now = agent.State{} }, plan: []string{"jobs update in place: nothing was applied yet", "tags update in place: the deploy that created the VM was not finished"}},
		"other spec":               {facts: func(f *Facts) { f.Now.ConfigurationHash = "other" }, plan: []string{"jobs update in place: the agent has another spec"}},
		"VM gone":                  {facts: func(f *Facts) { *f = Facts{AgentErr: errors.New("refused")} }, plan: []string{"vm create: it does not exist any more", "jobs create"}},
		"silent, --fix":            {want: func(w *wanted) { w.Asked.Fix = true }, facts: silent, plan: []string{"vm replace: its agent does not answer", "jobs create"}},
		"never reached":            {state: func(s *state.State) { s.Own.Reached = false }, facts: silent, plan: []string{"vm replace: its agent does not answer, and it has no jobs to stop", "jobs create"}},
		"process fails": {facts: func(f *Facts) { f.Now.JobState = "failing"; f.Now.Processes[0].State = "failing" },
			plan: []string{"jobs update in place: process web is failing"}},
		"process starts": {facts: func(f *Facts) { f.Now.JobState = "starting"; f.Now.Processes[0].State = "starting" },
			plan: []string{"jobs start: process web is not running yet"}},
		"jobs down":            {facts: func(f *Facts) { f.Now.JobState = "stopped"; f.Now.Processes = nil }, plan: []string{"jobs start: the agent reports \"stopped\""}},
		"jobs stopped by stop": {state: func(s *state.State) { s.Own.Stopped = true }, facts: func(f *Facts) { f.Now.JobState = "stopped"; f.Now.Processes = nil }},
		"disk grows":           {want: func(w *wanted) { w.Disk.Size = 128 }, plan: []string{"disk migrate: size 64 -> 128 MiB"}},
		"disk grows, not held": {want: func(w *wanted) {
			w.Disk.Size, w.DiskLimit = 128, Reason{Cause: DiskNotHeld, To: "no mkfs", From: "install it"}
		},
			plan: []string{"disk migrate: size 64 -> 128 MiB; its size is not enforced: no mkfs; to enforce it: install it"}},
		"disk kept, not held": {want: func(w *wanted) { w.DiskLimit = Reason{Cause: DiskNotHeld, To: "no mkfs", From: "install it"} }},
		"disk grows, API 1":   {want: func(w *wanted) { w.Disk.Size = 128; w.API = 1 }, plan: []string{"vm replace: with CPI API version 1", "disk migrate: size 64 -> 128", "jobs create"}},
		"disk type":           {want: func(w *wanted) { w.Disk.CloudProperties = map[string]any{"type": "fast"} }, plan: []string{"disk migrate: cloud_properties changed: type"}},
		"disk shrinks":        {want: func(w *wanted) { w.Disk.Size = 32; w.Asked.AllowShrink = true }, plan: []string{"disk migrate: size 64 -> 32 MiB"}},
		"no disk wanted":      {want: func(w *wanted) { w.Disk = nil }, plan: []string{"vm replace: its persistent disk is removed", "disk orphan: the manifest does not ask for it", "jobs create"}},
		"disk not mounted":    {facts: func(f *Facts) { f.Mounted = nil }, plan: []string{"disk attach: it is not mounted"}},
		"first disk":          {state: func(s *state.State) { s.Disks, s.CurrentDiskID = nil, "" }, facts: func(f *Facts) { f.Mounted = nil }, plan: []string{"disk create: new"}},
		"other disk mounted":  {state: func(s *state.State) { s.Disks, s.CurrentDiskID = nil, "" }, plan: []string{"vm replace: disk disk-1 is mounted, but this deployment does not use it", "disk create: new", "jobs create"}},
		"recreate disks":      {want: func(w *wanted) { w.Asked.RecreateDisks = true }, plan: []string{"disk migrate: --recreate-persistent-disks"}},
		"list of jobs":        {want: func(w *wanted) { w.Applied[PartJobs] = "z" }, plan: []string{"jobs update in place: some were added, removed or moved"}},
		"disk grows, delete-create": {want: func(w *wanted) { w.Strategy, w.Disk.Size = "delete-create", 128 },
			plan: []string{"vm replace: update.vm_strategy is delete-create; disk: size 64 -> 128 MiB", "disk migrate: size 64 -> 128", "jobs create"}},
		"disk left over": {state: func(s *state.State) { s.Disks = append(s.Disks, state.Disk{ID: "e", CID: "disk-9"}) }, plan: []string{"disk delete: it is unused"}},
		"disk left over, API 1, interrupted": {
			want: func(w *wanted) { w.API = 1 }, facts: func(f *Facts) { f.Now = agent.State{} },
			state: func(s *state.State) {
				s.CurrentManifestSHA, s.Disks = "", append(s.Disks, state.Disk{ID: "e", CID: "disk-9"})
			},
			plan: []string{"vm replace: may have left two disks", "jobs create", "disk delete: it is unused"},
		},
		"delete-create":       {want: func(w *wanted) { w.Strategy = "delete-create"; w.Applied["property: web port"] = "z" }, plan: []string{"vm replace: update.vm_strategy is delete-create; properties.port of job web changed", "jobs create"}},
		"delete-create, same": {want: func(w *wanted) { w.Strategy = "delete-create" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, st, f := same(), deployed(), well()
			if c.want != nil {
				c.want(&w)
			}
			if c.state != nil {
				c.state(&st)
			}
			if c.facts != nil {
				c.facts(&f)
			}
			p, err := decide(w, st, f)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ch := range p.Changes {
				if ch.Action != Keep {
					got = append(got, ch.What+" "+string(ch.Action)+": "+Words(ch.Why))
				}
			}
			if len(got) != len(c.plan) || p.Nothing() != (len(c.plan) == 0) {
				t.Fatalf("the plan is %q, want %q", got, c.plan)
			}
			for i, want := range c.plan {
				thing, reason, _ := strings.Cut(want, ": ")
				if !strings.HasPrefix(got[i], thing+": ") || !strings.Contains(got[i], reason) {
					t.Errorf("change %d is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

func TestDecideRefuses(t *testing.T) {
	t.Parallel()
	cause := errors.New("refused")
	_, err := decide(same(), deployed(), Facts{HasVM: true, AgentErr: cause})
	var silent *AgentSilentError
	if !errors.As(err, &silent) || silent.VM != "vm-1" || !errors.Is(err, cause) {
		t.Errorf("a silent agent: %v", err)
	}
	f := well()
	f.DiskGone = true
	_, err = decide(same(), deployed(), f)
	var gone *DiskGoneError
	if !errors.As(err, &gone) || gone.CID != "disk-1" {
		t.Errorf("a missing disk: %v", err)
	}
	w := same()
	w.Disk.Size = 32
	_, err = decide(w, deployed(), well())
	var shrink *ShrinkError
	if !errors.As(err, &shrink) || shrink.From != 64 || shrink.To != 32 {
		t.Errorf("a smaller disk: %v", err)
	}
}

// A disk stays in its zone: a new VM in another place would be without it.
func TestDecideZone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, now string
		change   func(*wanted, *state.State)
		refused  bool
	}{
		"moves":                    {"z1", "z2", func(w *wanted, _ *state.State) { w.Made[partProperties+": zone"] = "z" }, true},
		"moves to another network": {"z1", "z2", func(w *wanted, _ *state.State) { w.Made["network default: gateway"] = "z" }, true},
		"another address":          {"z1", "z2", func(w *wanted, _ *state.State) { w.Made["network default: ip"] = "z" }, false},
		"moves without a VM":       {"z1", "z2", func(_ *wanted, st *state.State) { st.CurrentVMCID, st.Own.Made = "", nil }, true},
		"another name":             {"z1", "z2", func(*wanted, *state.State) {}, false},
		"another name, --recreate": {"z1", "z2", func(w *wanted, _ *state.State) { w.Asked.Recreate = true }, false},
		"the same zone":            {"z1", "z1", func(w *wanted, _ *state.State) { w.Made[partProperties+": zone"] = "z" }, false},
		"zones given":              {"", "z2", func(w *wanted, _ *state.State) { w.Made[partProperties+": zone"] = "z" }, false},
		"the disk is not wanted":   {"z1", "z2", func(w *wanted, _ *state.State) { w.Disk = nil; w.Made[partProperties+": zone"] = "z" }, false},
		"there is no disk": {"z1", "z2", func(w *wanted, st *state.State) {
			st.Disks, st.CurrentDiskID = nil, ""
			w.Made[partProperties+": zone"] = "z"
		}, false},
		"a named disk":                 {"z1", "z2", withNamedDisk("data"), true},
		"a named disk that is removed": {"z1", "z2", withNamedDisk("other"), false},
	} {
		w, st := same(), deployed()
		w.Zone, st.Own.Zone = c.now, c.was
		c.change(&w, &st)
		_, err := decide(w, st, well())
		var zone *DiskZoneError
		if errors.As(err, &zone) != c.refused || err != nil && !c.refused || c.refused && (zone.CID != "disk-1" || zone.Was != c.was || zone.Now != c.now) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withNamedDisk makes the disk of a deployment the named disk data, and the manifest moves
// its VM and wants a disk with a name.
func withNamedDisk(name string) func(*wanted, *state.State) {
	return func(w *wanted, st *state.State) {
		st.CurrentDiskID = ""
		st.SetNamed("data", st.Disks[0].ID, "")
		w.Disk, w.Named = nil, []manifest.NamedDisk{{Name: name, Pool: manifest.DiskPool{Size: 64}}}
		w.Made[partProperties+": zone"] = "z"
	}
}

func TestSwap(t *testing.T) {
	t.Parallel()
	w := same()
	w.Strategy, w.Made["network default: ip"] = "create-swap-delete", "z"
	if p, err := decide(w, deployed(), well()); err != nil || !p.Swap {
		t.Errorf("swap is %v (%v), want a new VM first", p.Swap, err)
	}
	w.NoSwap = "both would have the static address 10.0.0.5"
	p, err := decide(w, deployed(), well())
	if err != nil || p.Swap || !slices.ContainsFunc(p.Warnings, func(r Reason) bool { return strings.Contains(r.String(), "10.0.0.5") }) {
		t.Errorf("swap is %v, warnings %q (%v), want the reason why not", p.Swap, p.Warnings, err)
	}
}

// Only a change of the disk or the jobs of an existing VM stops its jobs.
func TestDown(t *testing.T) {
	t.Parallel()
	w := same()
	w.Applied[PartTags] = "z"
	if p, _ := decide(w, deployed(), well()); p.stops() || p.Touches() || !p.needsCPI() {
		t.Errorf("tags: stops %v, touches %v, CPI %v", p.stops(), p.Touches(), p.needsCPI())
	}
	w = same()
	w.Applied["template: web"] = "z"
	if p, _ := decide(w, deployed(), well()); !p.stops() || !p.prepares() || p.needsCPI() {
		t.Errorf("template: stops %v, prepares %v, CPI %v", p.stops(), p.prepares(), p.needsCPI())
	}
	w.Missing = 2
	if p, _ := decide(w, deployed(), well()); p.prepares() {
		t.Error("a spec whose packages are missing is prepared")
	}
}

// If another run compiles a package after the plan was made, the plan stays valid.
func TestDiffersByPackages(t *testing.T) {
	t.Parallel()
	planned := func(missing int) Plan {
		w := same()
		w.Applied["template: web"] = "z"
		w.Missing = missing
		d, err := decide(w, deployed(), well())
		if err != nil {
			t.Fatal(err)
		}
		return Of(d)
	}
	for _, test := range []struct {
		before, after int
		differs       bool
	}{{2, 2, false}, {2, 1, false}, {2, 0, false}, {0, 1, true}, {1, 2, true}} {
		if what := Differs(planned(test.before), planned(test.after)); (what != "") != test.differs {
			t.Errorf("%d packages, then %d: %q", test.before, test.after, what)
		}
	}
}
