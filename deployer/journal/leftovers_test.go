//go:build unix

package journal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"bootstrap/cpi"
	"bootstrap/state"
)

// Leftovers are checked again, and no result makes a run fail. Only a delete is repeated:
// a person decides about objects that a call may have created.
func TestLookAtLeftovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in      state.Intent
		has     string
		deletes string // the reply to delete
		stays   bool
		calls   string
		reports string
	}{
		"delete, does not exist":   {state.Intent{Method: "delete_vm", CID: "vm-9"}, no, null, false, `has_vm ["vm-9"]`, "removed from the list: vm-9 does not exist any more"},
		"delete, exists":           {state.Intent{Method: "delete_disk", CID: "disk-9"}, yes, null, false, `has_disk ["disk-9"]; delete_disk ["disk-9"]`, "Deleting 'disk-9', a leftover of an earlier run"},
		"delete, unknown":          {state.Intent{Method: "delete_disk", CID: "disk-9"}, garbage, null, false, `has_disk ["disk-9"]; delete_disk ["disk-9"]`, "Deleting 'disk-9'"},
		"delete fails again":       {state.Intent{Method: "delete_disk", CID: "disk-9"}, yes, refuses(cpi.TypeCloudError), true, `has_disk ["disk-9"]; delete_disk ["disk-9"]; has_disk ["disk-9"]`, "warning: cannot settle the leftover delete_disk of 0001-01-01 00:00 UTC: the CPI refuses delete_disk"},
		"delete, recorded":         {state.Intent{Method: "delete_vm", CID: "vm-1"}, yes, null, false, "", "removed from the list: vm-1 is recorded"},
		"delete, an orphan":        {state.Intent{Method: "delete_disk", CID: "disk-0"}, yes, null, false, "", "removed from the list: disk-0 is recorded"},
		"delete a stemcell":        {state.Intent{Method: "delete_stemcell", CID: "sc-9"}, no, null, false, `delete_stemcell ["sc-9"]`, "Deleting 'sc-9'"},
		"missing stemcell":         {state.Intent{Method: "delete_stemcell", CID: "sc-9"}, no, refuses(cpi.TypeStemcellNotFound), false, `delete_stemcell ["sc-9"]`, ""},
		"VM, does not exist":       {state.Intent{Method: "create_vm", CID: "vm-9"}, no, null, false, `has_vm ["vm-9"]`, "removed from the list: vm-9 does not exist any more"},
		"VM, exists":               {state.Intent{Method: "create_vm", CID: "vm-9"}, yes, null, true, `has_vm ["vm-9"]`, ""},
		"disk, unknown":            {state.Intent{Method: "create_disk", CID: "disk-9"}, refuses(cpi.TypeNotImplemented), null, true, `has_disk ["disk-9"]`, ""},
		"snapshot":                 {state.Intent{Method: "snapshot_disk", CID: "snap-9", Disk: "disk-1"}, no, null, true, "", ""},
		"VM of the recorded agent": {state.Intent{Method: "create_vm", AgentID: "agent-1"}, yes, null, false, "", "removed from the list: VM vm-1 is recorded"},
		"VM without a CID":         {state.Intent{Method: "create_vm", AgentID: "agent-9"}, no, null, true, "", ""},
		"disk without a CID":       {state.Intent{Method: "create_disk", Size: 1}, no, null, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{"has_vm": c.has, "has_disk": c.has, "delete_vm": c.deletes, "delete_disk": c.deletes, "delete_stemcell": c.deletes})
			d.leaveBehind(t, c.in)
			if err := d.LookAtLeftovers(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := d.State.Get(); (len(st.Own.Leftovers) == 1) != c.stays || st.CurrentVMCID != "vm-1" || len(st.Own.Orphans) != 1 {
				t.Errorf("leftovers %v, VM %s, orphans %v", st.Own.Leftovers, st.CurrentVMCID, st.Own.Orphans)
			}
			if d.calls() != c.calls {
				t.Errorf("the CPI is asked %s, want %s", d.calls(), c.calls)
			}
			if !strings.Contains(d.reported(), c.reports) || strings.Contains(d.reported(), "warning: ") != strings.HasPrefix(c.reports, "warning: ") {
				t.Errorf("reported %s, want %s", d.reported(), c.reports)
			}
			d.finished(t)
		})
	}
}

func (d *deployment) leaveBehind(t *testing.T, in state.Intent) {
	t.Helper()
	in.ID = "left-" + in.CID
	d.change(t, func(st *state.State) {
		if err := st.LeaveBehind(in, "why"); err != nil {
			t.Error(err)
		}
	})
}

// The CPI is not installed or asked for leftovers alone, and an interrupted run keeps the
// rest of them.
func TestLeftoversAreLeftAlone(t *testing.T) {
	t.Parallel()
	vm, disk := state.Intent{Method: "delete_vm", CID: "vm-9"}, state.Intent{Method: "delete_disk", CID: "disk-9"}
	for name, c := range map[string]struct {
		arrange  func(*deployment, func())
		left     int
		calls    string
		warnings int
	}{
		"no CPI is connected":     {func(d *deployment, _ func()) { d.Connected = func() bool { return false } }, 2, "", 0},
		"interrupted":             {func(_ *deployment, cancel func()) { cancel() }, 2, "", 0},
		"the CPI cannot be asked": {func(d *deployment, _ func()) { d.CPI = noCPI }, 2, "", 2},
		"interrupted in between": {func(d *deployment, cancel func()) {
			d.CPI = func(context.Context) (*cpi.Client, error) { cancel(); return d.client, nil }
		}, 2, "", 1},
		"one after the other": {func(*deployment, func()) {}, 0, `has_vm ["vm-9"]; has_disk ["disk-9"]`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{"has_vm": no, "has_disk": no})
			d.leaveBehind(t, vm)
			d.leaveBehind(t, disk)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.arrange(d, cancel)
			if err := d.LookAtLeftovers(ctx); err != nil {
				t.Fatal(err)
			}
			if left := d.State.Get().Own.Leftovers; len(left) != c.left || d.calls() != c.calls {
				t.Errorf("leftovers %v, the CPI is asked %s", left, d.calls())
			}
			if n := strings.Count(d.reported(), "warning: "); n != c.warnings {
				t.Errorf("%d warnings, want %d: %s", n, c.warnings, d.reported())
			}
		})
	}
}

func noCPI(context.Context) (*cpi.Client, error) { return nil, errors.New("it does not compile") }
