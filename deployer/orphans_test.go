//go:build unix

package deployer

import (
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	deployed "bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// A disk that an instance uses is not attached to another one, although a state still has
// it as an orphan: the run that has attached it was killed before it removed that.
func TestAttachesNoDiskInUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, other, user bool // which states have the disk as an orphan, and whether an instance uses it
		want             string
	}{
		"an orphan of its own":          {own: true},
		"an orphan of another instance": {other: true},
		"one that another takes":        {other: true, user: true, want: "belongs to web/2"},
		"its own that another takes":    {own: true, user: true, want: "belongs to web/2"},
		"an unknown one":                {want: "there is no disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, nil)
			all := &deployed.Record{}
			for i, id := range []string{"a", "own", "c"} {
				all.Instances = append(all.Instances, &deployed.Instance{ID: id, Group: "web", Index: i, State: filepath.Join(r.dir, id+".json")})
			}
			orphan := []state.Orphan{{CID: "disk-9", Size: 64}}
			r.record(t, "a.json", func(st *state.State) {
				if c.other {
					st.Own.Orphans = orphan
				}
			})
			r.record(t, "c.json", func(st *state.State) {
				if c.user {
					st.CurrentDiskID, st.Disks = "x", []state.Disk{{ID: "x", CID: "disk-9"}}
				}
			})
			if err := r.t.State.Update(func(st *state.State) error {
				if c.own {
					st.Own.Orphans = orphan
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r.t.From.Of = &instance.Member{Record: all, Instance: all.Instances[1]}
			d := &diskRecord{run: r.run, cid: "disk-9"}
			err := d.attach(t.Context())
			st := r.t.State.Get()
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || plan.CurrentDisk(st) != "disk-1" {
					t.Errorf("%v; current: %s", err, plan.CurrentDisk(st))
				}
				return
			}
			if _, former := orphanOf(st, "disk-1"); err != nil || former != nil || plan.CurrentDisk(st) != "disk-9" {
				t.Errorf("%v; %s", err, recordedDisks(st))
			}
		})
	}
}

// record writes a state of another instance.
func (s scripted) record(t *testing.T, name string, change func(*state.State)) {
	t.Helper()
	f, err := file.Open(t.Context(), filepath.Join(s.dir, name), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Update(func(st *state.State) error { change(st); return nil }); err != nil {
		t.Fatal(err)
	}
}
