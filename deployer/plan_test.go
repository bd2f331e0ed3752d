package deployer

import (
	"errors"
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
	st.Own.Applied = map[string]string{"property: web port": "a", "template: web": "b", "release: web": "c", "package: page": "d", partTags: "e", partSpec: digestOf("salt", partSpec, "hash")}
	return st
}

// same is what asks for what is deployed.
func same() wanted {
	st := deployed()
	delete(st.Own.Applied, partSpec)
	return wanted{
		digest: "digest", group: "web", stemcell: "os/1",
		releases: []state.Release{{Name: "cpi", Version: "1"}, {Name: "web", Version: "1"}},
		used:     map[string]bool{"web": true},
		made:     st.Own.Made, applied: st.Own.Applied,
		disk: &manifest.DiskPool{Size: 64, CloudProperties: map[string]any{"type": "slow"}},
		api:  2,
	}
}

// well is what a VM tells on which all is as it should be.
func well() facts {
	f := facts{agentTold: true, hasVM: true, mounted: []string{"disk-1"}}
	f.now.Deployment, f.now.JobState, f.now.ConfigurationHash = "d", "running", "hash"
	f.now.Processes = []agent.Process{{Name: "web", State: "running"}}
	return f
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type table struct {
		want  func(*wanted)
		state func(*state.State)
		facts func(*facts)
		// plan lists the changes that are no keep: "what action: reason", of which
		// the reason may be a part.
		plan []string
	}
	silent := func(f *facts) { *f = facts{hasVM: true, agentErr: errors.New("refused")} }
	newDeploy := []string{"stemcell create: not uploaded", "vm create: there is no VM", "disk create: there is no persistent disk", "jobs create: the VM is new"}
	for name, c := range map[string]table{
		"nothing":       {},
		"nothing there": {state: func(s *state.State) { *s = state.State{} }, facts: func(f *facts) { *f = facts{} }, plan: newDeploy},
		"property":      {want: func(w *wanted) { w.digest = "2"; w.applied["property: web port"] = "z" }, plan: []string{"jobs update in place: properties.port of job web changed"}},
		"property gone": {want: func(w *wanted) { w.digest = "2"; delete(w.applied, "property: web port") }, plan: []string{"jobs update in place: properties.port of job web changed"}},
		"package":       {want: func(w *wanted) { w.applied["package: page"] = "z"; w.compiles = 1 }, plan: []string{"jobs update in place: package page changed", "packages create: compiles 1 package while"}},
		"release": {want: func(w *wanted) {
			w.releases[1].Version = "2"
			w.applied["release: web"] = "z"
			w.applied["template: web"] = "y"
		}, plan: []string{"jobs update in place: release web 1 -> 2"}},
		"release of the CPI":      {want: func(w *wanted) { w.releases[0].Version = "2"; w.digest = "2" }, plan: []string{"record record: the manifest changed in nothing"}},
		"comment":                 {want: func(w *wanted) { w.digest = "2" }, plan: []string{"record record: the manifest changed in nothing"}},
		"tags":                    {want: func(w *wanted) { w.digest = "2"; w.applied[partTags] = "z" }, plan: []string{"tags update in place: tags changed"}},
		"stemcell":                {want: func(w *wanted) { w.stemcell = "os/2" }, plan: []string{"stemcell create: stemcell 1 -> 2", "vm replace: stemcell 1 -> 2", "jobs create: the VM is new"}},
		"cloud_properties":        {want: func(w *wanted) { w.made["cloud_properties of resource pool: instance_type"] = "z" }, plan: []string{"vm replace: cloud_properties of resource pool changed: instance_type", "jobs create"}},
		"network":                 {want: func(w *wanted) { w.made["network default: ip"] = "z" }, plan: []string{"vm replace: network default changed: ip", "jobs create"}},
		"recreate":                {want: func(w *wanted) { w.options.Recreate = true }, plan: []string{"vm replace: --recreate", "jobs create"}},
		"another tool, same":      {state: func(s *state.State) { s.Own = state.Own{} }, plan: []string{"record record: made by another tool"}},
		"another tool, other":     {state: func(s *state.State) { s.Own = state.Own{}; s.CurrentManifestSHA = "x" }, plan: []string{"vm replace: what the VM was made from is unknown", "jobs create"}},
		"another tool, adopted":   {want: func(w *wanted) { w.options.AdoptVM = true }, state: func(s *state.State) { s.Own = state.Own{}; s.CurrentManifestSHA = "x" }, plan: []string{"jobs update in place: what was put on the VM last is unknown"}},
		"cut":                     {state: func(s *state.State) { s.CurrentManifestSHA, s.Releases = "", nil }, plan: []string{"jobs update in place: the last deploy was not finished"}},
		"cut before the apply":    {state: func(s *state.State) { s.CurrentManifestSHA, s.Own.Applied = "", nil }, facts: func(f *facts) { f.now = agent.State{} }, plan: []string{"jobs update in place: nothing was put on the VM yet", "tags update in place: the deploy that made the VM was not finished"}},
		"other spec":              {facts: func(f *facts) { f.now.ConfigurationHash = "other" }, plan: []string{"jobs update in place: the agent has another spec"}},
		"VM gone":                 {facts: func(f *facts) { *f = facts{agentErr: errors.New("refused")} }, plan: []string{"vm create: VM vm-1 is gone", "jobs create"}},
		"silent, to be fixed":     {want: func(w *wanted) { w.options.Fix = true }, facts: silent, plan: []string{"vm replace: its agent does not answer", "jobs create"}},
		"silent since it is made": {state: func(s *state.State) { s.Own.Reached = false }, facts: silent, plan: []string{"vm replace: its agent does not answer, and it has no jobs to stop", "jobs create"}},
		"process fails": {facts: func(f *facts) { f.now.JobState = "failing"; f.now.Processes[0].State = "failing" },
			plan: []string{"jobs update in place: process web is failing"}},
		"jobs down":            {facts: func(f *facts) { f.now.JobState = "stopped"; f.now.Processes = nil }, plan: []string{"jobs start: the jobs are stopped"}},
		"jobs stopped by stop": {state: func(s *state.State) { s.Own.Stopped = true }, facts: func(f *facts) { f.now.JobState = "stopped"; f.now.Processes = nil }},
		"disk grows":           {want: func(w *wanted) { w.disk.Size = 128 }, plan: []string{"disk migrate: size 64 -> 128 MiB"}},
		"disk grows, API 1":    {want: func(w *wanted) { w.disk.Size = 128; w.api = 1 }, plan: []string{"vm replace: API version 1", "disk migrate: size 64 -> 128", "jobs create"}},
		"disk type":            {want: func(w *wanted) { w.disk.CloudProperties = map[string]any{"type": "fast"} }, plan: []string{"disk migrate: cloud_properties of the disk changed: type"}},
		"disk shrinks":         {want: func(w *wanted) { w.disk.Size = 32; w.options.AllowShrink = true }, plan: []string{"disk migrate: size 64 -> 32 MiB"}},
		"disk taken away":      {want: func(w *wanted) { w.disk = nil }, plan: []string{"vm replace: the persistent disk is taken away", "disk orphan: asks for no persistent disk", "jobs create"}},
		"disk not mounted":     {facts: func(f *facts) { f.mounted = nil }, plan: []string{"disk attach: does not have it mounted"}},
		"first disk":           {state: func(s *state.State) { s.Disks, s.CurrentDiskID = nil, "" }, facts: func(f *facts) { f.mounted = nil }, plan: []string{"disk create: there is no persistent disk"}},
		"other disk mounted":   {state: func(s *state.State) { s.Disks, s.CurrentDiskID = nil, "" }, plan: []string{"vm replace: disk disk-1 is mounted, which is not recorded", "disk create: no persistent disk", "jobs create"}},
		"recreate disks":       {want: func(w *wanted) { w.options.RecreateDisks = true }, plan: []string{"disk migrate: --recreate-persistent-disks"}},
		"disk left over":       {state: func(s *state.State) { s.Disks = append(s.Disks, state.Disk{ID: "e", CID: "disk-9"}) }, plan: []string{"disk delete: it is unused"}},
		"disk left over, API 1, cut": {
			want: func(w *wanted) { w.api = 1 }, facts: func(f *facts) { f.now = agent.State{} },
			state: func(s *state.State) {
				s.CurrentManifestSHA, s.Disks = "", append(s.Disks, state.Disk{ID: "e", CID: "disk-9"})
			},
			plan: []string{"vm replace: it may have had two disks", "jobs create", "disk delete: it is unused"},
		},
		"delete-create":       {want: func(w *wanted) { w.strategy = "delete-create"; w.applied["property: web port"] = "z" }, plan: []string{"vm replace: update.vm_strategy is delete-create; properties.port of job web changed", "jobs create"}},
		"delete-create, same": {want: func(w *wanted) { w.strategy = "delete-create" }},
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
				if ch.Action != keep {
					got = append(got, ch.What+" "+string(ch.Action)+": "+strings.Join(ch.Why, "; "))
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
	_, err := decide(same(), deployed(), facts{hasVM: true, agentErr: cause})
	var silent *AgentSilentError
	if !errors.As(err, &silent) || silent.VM != "vm-1" || !errors.Is(err, cause) {
		t.Errorf("of a silent agent: %v", err)
	}
	f := well()
	f.diskGone = true
	_, err = decide(same(), deployed(), f)
	var gone *DiskGoneError
	if !errors.As(err, &gone) || gone.CID != "disk-1" {
		t.Errorf("of a disk that is gone: %v", err)
	}
	w := same()
	w.disk.Size = 32
	_, err = decide(w, deployed(), well())
	var shrink *ShrinkError
	if !errors.As(err, &shrink) || shrink.From != 64 || shrink.To != 32 {
		t.Errorf("of a smaller disk: %v", err)
	}
}

func TestSwap(t *testing.T) {
	t.Parallel()
	w := same()
	w.strategy, w.made["network default: ip"] = "create-swap-delete", "z"
	if p, err := decide(w, deployed(), well()); err != nil || !p.swap {
		t.Errorf("swap is %v (%v), want a new VM first", p.swap, err)
	}
	w.noSwap = "both would have the static address 10.0.0.5"
	p, err := decide(w, deployed(), well())
	if err != nil || p.swap || !slices.ContainsFunc(p.Warnings, func(s string) bool { return strings.Contains(s, "10.0.0.5") }) {
		t.Errorf("swap is %v, warnings %q (%v), want the reason why not", p.swap, p.Warnings, err)
	}
}

// Whatever is done to the disk or the jobs of a VM that stays stops its jobs;
// nothing else does.
func TestDown(t *testing.T) {
	t.Parallel()
	w := same()
	w.applied[partTags] = "z"
	if p, _ := decide(w, deployed(), well()); p.stops() || p.touches() || !p.needsCPI() {
		t.Errorf("tags: stops %v, touches %v, CPI %v", p.stops(), p.touches(), p.needsCPI())
	}
	w = same()
	w.applied["template: web"] = "z"
	if p, _ := decide(w, deployed(), well()); !p.stops() || !p.prepares() || p.needsCPI() {
		t.Errorf("template: stops %v, prepares %v, CPI %v", p.stops(), p.prepares(), p.needsCPI())
	}
	w.compiles = 2
	if p, _ := decide(w, deployed(), well()); p.prepares() {
		t.Error("a spec whose packages are missing is prepared")
	}
}
