//go:build unix

package deployer

import (
	"context"
	"net/url"
	"slices"
	"testing"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/manifest"
	"bootstrap/state"
)

// A plan asks this machine and its cache only for facts that its changes need: none for
// an unchanged manifest.
func TestWhatPlansAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*manifest.Manifest)
		flags  plan.Asked
		asked  []string
		sorts  bool // it finds out how packages get to the VM
		diff   bool // it compares the manifest with the last one
	}{
		"nothing":    {},
		"a warning":  {change: func(m *manifest.Manifest) { m.Warnings = append(m.Warnings, m.Warnings...) }},
		"the digest": {change: func(m *manifest.Manifest) { m.Digest = "2" }, diff: true},
		"a tag":      {change: func(m *manifest.Manifest) { m.Tags = map[string]string{"owner": "me"} }, diff: true},
		"a job":      {change: func(m *manifest.Manifest) { m.Group.Jobs = []manifest.JobRef{{Name: "page", Release: "web"}} }, sorts: true, diff: true},
		"a disk":     {change: func(m *manifest.Manifest) { m.Group.Disk = &manifest.DiskPool{Size: 128} }, sorts: true, diff: true, asked: []string{"machine", "network", "limits", "disk limit"}},
		"a VM": {
			change: func(m *manifest.Manifest) { m.ResourcePool.CloudProperties = map[string]any{"cpu": 2} },
			sorts:  true, diff: true, asked: []string{"machine", "network", "limits", "disk limit"},
		},
		"a flag": {flags: plan.Asked{Recreate: true}, sorts: true, diff: true, asked: []string{"machine", "network", "limits", "disk limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			r := unchangedRun(t, &asked)
			if c.change != nil {
				changed := *r.in.Manifest
				c.change(&changed)
				r.in.Manifest = &changed
			}
			r.asked.Asked = c.flags
			if err := r.makePlan(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("it asked for %q, want %q", asked, c.asked)
			}
			if sorts := r.packages.delivery != nil; sorts != c.sorts {
				t.Errorf("packages were looked for: %v, want %v", sorts, c.sorts)
			}
			if diff := len(r.plan.Diff) > 0; diff != c.diff {
				t.Errorf("diff %q", r.plan.Diff)
			}
			if r.plan.Nothing() == c.diff {
				t.Errorf("changes %v", r.plan.Changes)
			}
		})
	}
}

// unchangedRun returns a run whose VM matches its manifest. The run adds its questions to
// the machine to asked.
func unchangedRun(t *testing.T, asked *[]string) scripted {
	r := scriptedRun(t, nil)
	ask := func(what string) { *asked = append(*asked, what) }
	env := r.t.Env
	env.Machine = func(context.Context, string, bool) instance.Machine {
		ask("machine")
		return instance.Machine{Kind: agent.MachineFolder}
	}
	env.Network = func(map[string]map[string]any, any, string) instance.Network {
		ask("network")
		return instance.Network{}
	}
	env.Limits = func(string, map[string]any) instance.Limits { ask("limits"); return instance.Limits{} }
	env.DiskLimit = func(string) instance.Limits { ask("disk limit"); return instance.Limits{} }
	r.reads(&manifest.Manifest{
		Name: "d", Digest: "1",
		Networks: []manifest.Network{{Name: "default", Type: "dynamic"}},
		Group: manifest.InstanceGroup{
			Name: "web", Disk: &manifest.DiskPool{Size: 64}, Networks: []manifest.GroupNetwork{{Name: "default"}},
		},
		CPI: manifest.Installation{MBusURL: &url.URL{Host: "10.0.0.5:6868"}, Templates: []manifest.JobRef{{Name: "local_cpi", Release: "cpi"}}},
	})
	r.fetched(map[string]*artifact.Release{"web": {Name: "web", Jobs: []*artifact.Job{{Name: "page"}}}}, &artifact.Stemcell{Name: "os", Version: "1"})
	if err := r.t.Folder().SetSketch([]byte("name: before\n")); err != nil {
		t.Fatal(err)
	}
	r.look.Facts = plan.Facts{
		Answers: true, HasVM: true, Mounted: []string{"disk-1"},
		Now: agent.State{JobState: "running", Spec: agent.Spec{Deployment: "d", ConfigurationHash: "hash"}},
	}
	record(t, r, func(st *state.State) { st.Own.Address = "10.0.0.5" })
	w, err := r.wishes()
	if err != nil {
		t.Fatal(err)
	}
	record(t, r, func(st *state.State) {
		st.CurrentManifestSHA = "1"
		st.Disks[0].Size = 64
		st.Own.Made, st.Own.Applied = w.Made, w.Applied
	})
	return r
}

func record(t *testing.T, r scripted, change func(*state.State)) {
	t.Helper()
	if err := r.t.State.Update(func(st *state.State) error { change(st); return nil }); err != nil {
		t.Fatal(err)
	}
}
