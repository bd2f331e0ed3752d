//go:build unix

package deployer

import (
	"strings"
	"testing"

	"bootstrap/cpi"
	"bootstrap/state"
)

// Leftovers are checked again, and no result makes a run fail.
func TestLookAtLeftovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in      state.Intent
		has     string
		deleted string // the answer of a delete
		stays   bool
		calls   string
		warns   bool
	}{
		"a delete of what is gone":        {state.Intent{Method: "delete_vm", CID: "vm-9"}, no, good, false, "has_vm", false},
		"a delete of what is there":       {state.Intent{Method: "delete_disk", CID: "disk-9"}, yes, good, false, "has_disk delete_disk", false},
		"a delete that fails again":       {state.Intent{Method: "delete_disk", CID: "disk-9"}, yes, refuses(cpi.TypeCloudError), true, "has_disk delete_disk has_disk", true},
		"a delete of what is recorded":    {state.Intent{Method: "delete_vm", CID: "vm-1"}, yes, good, false, "", false},
		"a delete of a stemcell":          {state.Intent{Method: "delete_stemcell", CID: "sc-9"}, no, good, false, "delete_stemcell", false},
		"a VM that is gone":               {state.Intent{Method: "create_vm", CID: "vm-9"}, no, good, false, "has_vm", false},
		"a VM that is there":              {state.Intent{Method: "create_vm", CID: "vm-9"}, yes, good, true, "has_vm", false},
		"a disk, and the CPI cannot tell": {state.Intent{Method: "create_disk", CID: "disk-9"}, refuses(cpi.TypeNotImplemented), good, true, "has_disk", false},
		"a VM that is recorded by now":    {state.Intent{Method: "create_vm", AgentID: "agent-1"}, yes, good, false, "", false},
		"a VM of an unknown CID":          {state.Intent{Method: "create_vm", AgentID: "agent-9"}, no, good, true, "", false},
		"a disk of an unknown CID":        {state.Intent{Method: "create_disk", Size: 1}, no, good, true, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{"has_vm": c.has, "has_disk": c.has, "delete_vm": c.deleted, "delete_disk": c.deleted, "delete_stemcell": c.deleted})
			c.in.ID = "left"
			if err := r.t.State.Update(func(st *state.State) error { return st.LeaveBehind(c.in, "why") }); err != nil {
				t.Fatal(err)
			}
			if err := r.journal.LookAtLeftovers(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := r.t.State.Get()
			if (len(st.Own.Leftovers) == 1) != c.stays || len(st.Own.Intents) > 0 || st.CurrentVMCID != "vm-1" {
				t.Errorf("leftovers %v, intents %v", st.Own.Leftovers, st.Own.Intents)
			}
			if r.calls() != c.calls || strings.Contains(r.said(), "warning: ") != c.warns {
				t.Errorf("calls %q, want %q; said %s", r.calls(), c.calls, r.said())
			}
		})
	}
}

// A delete of something that is not recorded any more becomes a leftover while
// the thing may still exist.
func TestSettleDeleteOfWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	for has, stays := range map[string]bool{yes: true, no: false, garbage: true} {
		r := scriptedRun(t, map[string]string{"has_vm": has})
		r.leaveIntent(t, state.Intent{Method: "delete_vm", CID: "vm-9"}, "", true)
		if err := r.journal.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := r.t.State.Get(); (len(st.Own.Leftovers) == 1) != stays || len(st.Own.Intents) > 0 {
			t.Errorf("%s: leftovers %v, intents %v", has, st.Own.Leftovers, st.Own.Intents)
		}
	}
}
