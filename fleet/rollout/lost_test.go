//go:build unix

package rollout

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/fleet"
	"bootstrap/state"
)

// A member whose record of instances is damaged or lost is not taken for one that is not
// deployed.
func TestLostRecord(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"deployment.json": "{", "web-6ba7b810.json": "{}"} {
		for _, action := range []fleet.Strategy{fleet.DeleteStrategy, fleet.StopStrategy} {
			s := newSite(t, "a", "", nil)
			if err := os.Mkdir(filepath.Join(s.dir, "a-state"), 0o700); err != nil {
				t.Fatal(err)
			}
			s.write(t, "a-state/"+name, content)
			opts := s.options(t)
			opts.Action = action
			if r, err := Preview(t.Context(), opts); err != nil || verdicts(r) != "a failed" {
				t.Errorf("%s, %s: %v, %v", name, action, verdicts(r), err)
			}
		}
	}
}

// A removed member of which only orphaned disks are left is not forgotten.
func TestRemovedDisks(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", nil)
	s.deployedAs(t, "a", nil)
	if err := os.Mkdir(filepath.Join(s.dir, "b-state"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, "b-state/deployment.json", `{"format": 1, "instances": [], "former_instances": [{"id": "6ba7b810-9dad", "group": "web", "state": "../former-state.json"}]}`)
	s.deployedAs(t, "former", func(st *state.State) {
		st.CurrentVMCID, st.CurrentDiskID, st.Disks = "", "", nil
		st.Own.Orphans = []state.Orphan{{CID: "disk-1", Size: 64}}
	})
	if _, err := Deploy(t.Context(), s.options(t)); err != nil {
		t.Fatal(err)
	}
	s.write(t, "fleet.yml", "members: [{manifest: a.yml}]\n")
	opts := s.options(t)
	opts.Action, opts.Choice.Removed = fleet.DeleteStrategy, true
	r, err := Preview(t.Context(), opts)
	if err != nil || verdicts(r) != "b waiting" || len(r.Removed) != 1 || r.Removed[0].String() != "b (disk disk-1)" {
		t.Fatalf("%v: %s, %v", err, verdicts(r), r.Removed)
	}
}
