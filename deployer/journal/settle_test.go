//go:build unix

package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/cpi"
	"bootstrap/state"
)

// Replies that are not texts of a CPI.
const (
	notBegun = "not begun" // the run was killed after announcing the call, before starting the CPI
	lost     = "lost"      // the file does not exist, as after restoring an older state
)

// leave writes the state and the reply of a run that was killed during a call.
func (d *deployment) leave(t *testing.T, in state.Intent, reply string) state.Intent {
	t.Helper()
	in, err := d.Announce(in)
	switch {
	case err == nil && reply == lost:
		err = os.Remove(in.Reply)
	case err == nil && reply != notBegun:
		err = os.WriteFile(in.Reply, []byte(reply), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func whyLeft(st state.State) string {
	why := ""
	for _, l := range st.Own.Leftovers {
		why += l.Why
	}
	return why
}

const refusal = `{"error":{"type":"Bosh::Clouds::CloudError","message":"no way"}}`

// A create of a killed run is settled by its reply. Without one, only a VM can be found,
// by its agent; other objects become leftovers.
func TestSettleCreate(t *testing.T) {
	t.Parallel()
	vm := state.Intent{Method: "create_vm", AgentID: "agent-2", StemcellID: "s", Group: "web"}
	disk := state.Intent{Method: "create_disk", Size: 20}
	snapshot := state.Intent{Method: "snapshot_disk", Disk: "disk-1"}
	stemcell := state.Intent{Method: "create_stemcell", Stemcell: &state.Stemcell{Name: "os", Version: "2"}}
	for name, c := range map[string]struct {
		in       state.Intent
		reply    string
		agent    string // the CID that the agent proves; empty: none
		current  string // the VM that was recorded before
		made     string // the CID that is recorded
		why      string // part of the leftover's reason
		left     string // CID of the leftover
		reported string
	}{
		"VM":                            {in: vm, reply: `{"result":["vm-2",{}]}`, made: "vm-2", reported: "An earlier run was interrupted during create_vm; the CPI finished it: vm-2\nadopted vm-2"},
		"VM of API 1":                   {in: vm, reply: `{"result":"vm-2"}`, made: "vm-2", reported: "adopted vm-2"},
		"VM refused":                    {in: vm, reply: refusal, reported: "create_vm, which failed: the CPI refuses create_vm: no way"},
		"VM not begun":                  {in: vm, reply: notBegun},
		"VM, half a reply, an agent":    {in: vm, reply: `{"resu`, agent: "vm-2", made: "vm-2", reported: "its agent answers: vm-2\nadopted vm-2"},
		"VM, lost reply, an agent":      {in: vm, reply: lost, agent: "vm-2", made: "vm-2", reported: "adopted vm-2"},
		"VM, half a reply, no agent":    {in: vm, reply: `{"resu`, why: "the CPI's reply cannot be read: it is not a reply in JSON: unexpected EOF, and nobody answers; look in the cloud for a VM whose agent has the id agent-2 or the tags deployment=simple, instance_group=web made at about "},
		"VM, a number":                  {in: vm, reply: `{"result":7}`, why: "the CPI's reply gives 7 (it is not a string) instead of a CID, and nobody answers"},
		"VM, no reply, no agent":        {in: vm, why: "the CPI left no reply, and nobody answers"},
		"VM while another is recorded":  {in: vm, reply: `{"result":"vm-2"}`, current: "vm-1", why: "VM vm-2 was created while VM vm-1 is recorded as the current one", left: "vm-2", reported: "warning: VM vm-2 was created while"},
		"VM with the CID of the other":  {in: vm, reply: `{"result":"vm-1"}`, current: "vm-1", why: "the CPI gave the same CID twice", left: "vm-1"},
		"disk":                          {in: disk, reply: `{"result":"disk-2"}`, made: "disk-2"},
		"disk refused":                  {in: disk, reply: refusal, reported: "create_disk, which failed"},
		"disk not begun":                {in: disk, reply: notBegun},
		"disk, no reply":                {in: disk, agent: "vm-2", why: "the CPI left no reply; look in the cloud for a disk of 20 MiB without tags"},
		"disk, lost reply":              {in: disk, reply: lost, why: "the file with the CPI's reply does not exist any more; look in the cloud for a disk"},
		"disk with the CID of another":  {in: disk, reply: `{"result":"disk-0"}`, why: "the CPI gave the same CID twice", left: "disk-0"},
		"snapshot":                      {in: snapshot, reply: `{"result":"snap-1"}`, made: "snap-1"},
		"snapshot, no reply":            {in: snapshot, why: "look in the cloud for a snapshot of disk disk-1"},
		"stemcell":                      {in: stemcell, reply: `{"result":"sc-2"}`, made: "sc-2"},
		"stemcell, two replies":         {in: stemcell, reply: `{"result":"sc-2"}{"result":"sc-3"}`, why: "something follows the JSON object; look in the cloud for a stemcell os/2"},
		"a method of a newer version":   {in: state.Intent{Method: "create_network"}, reply: `{"result":"net-1"}`, why: "cannot record what create_network created", left: "net-1"},
		"the same, and there is no end": {in: state.Intent{Method: "create_network"}, why: "look in the cloud for what create_network made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, nil)
			d.change(t, func(st *state.State) { st.CurrentVMCID = c.current })
			asked := 0
			d.WhoIsThere = func(_ context.Context, in state.Intent) (string, string) {
				asked++
				if in.AgentID != "agent-2" {
					t.Errorf("looks for the VM of %q", in.AgentID)
				}
				if c.agent == "" {
					return "", "nobody answers"
				}
				return c.agent, ""
			}
			d.leave(t, c.in, c.reply)
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := d.State.Get()
			for _, cid := range []string{"vm-2", "disk-2", "snap-1", "sc-2"} {
				if recorded(st, cid) != (cid == c.made) {
					t.Errorf("%s is recorded: %t", cid, recorded(st, cid))
				}
			}
			if st.CurrentVMCID != c.current && st.CurrentVMCID != c.made || st.CurrentDiskID != "d" || st.CurrentStemcellID != "s" && c.made != "vm-2" {
				t.Errorf("current: VM %s, disk %s, stemcell %s", st.CurrentVMCID, st.CurrentDiskID, st.CurrentStemcellID)
			}
			if why := whyLeft(st); !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("leftovers: %s, want %s", why, c.why)
			}
			if c.why != "" && st.Own.Leftovers[0].CID != c.left {
				t.Errorf("the leftover has the CID %q", st.Own.Leftovers[0].CID)
			}
			if warned := strings.Contains(d.reported(), "warning: "); warned != (c.why != "") || !strings.Contains(d.reported(), c.reported) {
				t.Errorf("reported %s, want %s", d.reported(), c.reported)
			}
			if want := c.in.Method == "create_vm" && (c.agent != "" || strings.Contains(c.why, "nobody answers")); (asked == 1) != want {
				t.Errorf("the agent is looked for %d times", asked)
			}
			if d.calls() != "" {
				t.Errorf("the CPI is asked %s", d.calls())
			}
			d.finished(t)
		})
	}
}

// A change of a disk is settled by its reply. Without one, the CPI is asked whether the
// old disk exists, which stays the current one.
func TestSettleChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, reply, has string
		disk               string // the CID that is recorded
		changed            bool   // the size that is recorded
		why                string // part of the leftover's reason
		calls              string
	}{
		"changed in place":        {"update_disk", `{"result":null}`, no, "disk-1", true, "", ""},
		"replaced":                {"update_disk", `{"result":"disk-2"}`, no, "disk-2", true, "", ""},
		"replaced by a known one": {"update_disk", `{"result":"disk-0"}`, no, "disk-1", false, "the CPI gave the same CID twice", ""},
		"refused":                 {"update_disk", refusal, no, "disk-1", false, "", ""},
		"not begun":               {"update_disk", notBegun, no, "disk-1", false, "", ""},
		"killed, exists":          {"update_disk", ``, yes, "disk-1", false, "the CPI left no reply; disk disk-1 still exists and stays the current one, but another disk may have been made from it; look in the cloud for a disk of 20 MiB that was made from disk disk-1", `has_disk ["disk-1"]`},
		"killed, does not exist":  {"update_disk", ``, no, "disk-1", false, "disk disk-1 does not exist any more, and another disk contains its data: with the CID of that disk, `bootstrap state leftovers MANIFEST --adopt ID CID`", `has_disk ["disk-1"]`},
		"killed, unknown":         {"update_disk", `{"resu`, refuses(cpi.TypeNotImplemented), "disk-1", false, "the CPI cannot say whether disk disk-1 still exists", `has_disk ["disk-1"]`},
		"lost reply":              {"update_disk", lost, yes, "disk-1", false, "the file with the CPI's reply does not exist any more", `has_disk ["disk-1"]`},
		"resized":                 {"resize_disk", `{"result":null}`, no, "disk-1", true, "", ""},
		"resized and killed":      {"resize_disk", ``, no, "disk-1", false, "", ""},
		"resize refused":          {"resize_disk", refusal, no, "disk-1", false, "", ""},
		"not begun to resize":     {"resize_disk", notBegun, no, "disk-1", false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{"has_disk": c.has})
			d.leave(t, state.Intent{Method: c.method, Disk: "disk-1", Size: 20, CloudProperties: map[string]any{"type": "fast"}}, c.reply)
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := d.State.Get()
			disk := st.Disk()
			if disk == nil || len(st.Disks) != 1 || disk.CID != c.disk || (disk.Size == 20 && disk.CloudProperties["type"] == "fast") != c.changed {
				t.Errorf("disks %v", st.Disks)
			}
			if why := whyLeft(st); !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("leftovers: %s, want %s", why, c.why)
			}
			if d.calls() != c.calls {
				t.Errorf("the CPI is asked %s, want %s", d.calls(), c.calls)
			}
			d.finished(t)
		})
	}
}

// A delete is settled by its reply or, without one, by asking the CPI. An object that may
// exist stays recorded.
func TestSettleDelete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, cid, reply, has string
		gone                    bool
		left                    bool // true: it becomes a leftover
		calls                   string
	}{
		"done":                        {"delete_vm", "vm-1", `{"result":null}`, yes, true, false, ""},
		"missing":                     {"delete_disk", "disk-1", `{"error":{"type":"Bosh::Clouds::DiskNotFound","message":"no"}}`, yes, true, false, ""},
		"refused, exists":             {"delete_vm", "vm-1", refusal, yes, false, false, `has_vm ["vm-1"]`},
		"refused, does not exist":     {"delete_vm", "vm-1", refusal, no, true, false, `has_vm ["vm-1"]`},
		"killed, does not exist":      {"delete_disk", "disk-1", ``, no, true, false, `has_disk ["disk-1"]`},
		"killed, exists":              {"delete_disk", "disk-1", ``, yes, false, false, `has_disk ["disk-1"]`},
		"half a reply, unknown":       {"delete_vm", "vm-1", `{"resu`, garbage, false, false, `has_vm ["vm-1"]`},
		"not begun":                   {"delete_vm", "vm-1", notBegun, no, false, false, ""},
		"lost reply":                  {"delete_vm", "vm-1", lost, no, true, false, `has_vm ["vm-1"]`},
		"stemcell":                    {"delete_stemcell", "sc-1", `{"result":true}`, "", true, false, ""},
		"stemcell, killed":            {"delete_stemcell", "sc-1", ``, "", false, false, ""},
		"orphan":                      {"delete_disk", "disk-0", `{"result":null}`, yes, true, false, ""},
		"not recorded, exists":        {"delete_vm", "vm-9", ``, yes, true, true, `has_vm ["vm-9"]`},
		"not recorded, unknown":       {"delete_vm", "vm-9", ``, garbage, true, true, `has_vm ["vm-9"]`},
		"not recorded, done":          {"delete_vm", "vm-9", `{"result":null}`, yes, true, false, ""},
		"not recorded, not begun":     {"delete_vm", "vm-9", notBegun, no, true, true, ""},
		"not recorded, does not":      {"delete_disk", "disk-9", ``, no, true, false, `has_disk ["disk-9"]`},
		"a method of a newer version": {"delete_network", "net-1", ``, "", true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{"has_vm": c.has, "has_disk": c.has})
			d.leave(t, state.Intent{Method: c.method, CID: c.cid}, c.reply)
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := d.State.Get()
			if recorded(st, c.cid) == c.gone || (len(st.Own.Leftovers) == 1) != c.left {
				t.Errorf("recorded %t, leftovers %v", recorded(st, c.cid), st.Own.Leftovers)
			}
			if forgotten := slices.Contains(d.events, "gone"); forgotten != (c.cid == "vm-1" && c.gone) {
				t.Errorf("the run forgets its VM: %t", forgotten)
			}
			if d.calls() != c.calls || !strings.Contains(d.reported(), "n earlier run was interrupted during "+c.method) {
				t.Errorf("the CPI is asked %s, want %s; reported %s", d.calls(), c.calls, d.reported())
			}
			d.finished(t)
		})
	}
}

// After a delete_vm with an unknown result, a silent agent is not asked to stop jobs.
func TestHalfDeletedVM(t *testing.T) {
	t.Parallel()
	for method, cid := range map[string]string{"delete_vm": "vm-1", "delete_disk": "disk-1"} {
		for _, answers := range []bool{true, false} {
			d := deployed(t, map[string]string{"has_vm": yes, "has_disk": yes})
			d.Answers = func() bool { return answers }
			d.leave(t, state.Intent{Method: method, CID: cid}, "")
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := d.State.Get(); st.Own.Reached != (answers || method == "delete_disk") || !recorded(st, cid) {
				t.Errorf("%s, answers %t: reached %t", method, answers, st.Own.Reached)
			}
			d.finished(t)
		}
	}
}

// If no call is announced, Settle neither installs the CPI nor asks it.
func TestNothingToSettle(t *testing.T) {
	t.Parallel()
	d := deployed(t, nil)
	d.CPI = func(context.Context) (*cpi.Client, error) {
		t.Error("the CPI is installed")
		return nil, errors.New("no CPI")
	}
	if err := d.Settle(t.Context()); err != nil || len(d.events) > 0 {
		t.Errorf("error %v, reported %s", err, d.reported())
	}
}

// Calls are settled in the order of their announcement. After the first error, the
// earlier results are recorded, and the next run settles the rest.
func TestSettleInOrder(t *testing.T) {
	t.Parallel()
	d := deployed(t, nil)
	d.change(t, func(st *state.State) { st.CurrentVMCID = "" })
	d.leave(t, state.Intent{Method: "create_disk", Size: 20}, `{"result":"disk-2"}`)
	d.leave(t, state.Intent{Method: "create_vm", AgentID: "agent-2"}, `{"result":"vm-2"}`)
	d.leave(t, state.Intent{Method: "delete_disk", CID: "disk-1"}, `{"result":null}`)
	adopted := d.Adopted
	d.Adopted = func(context.Context, state.Intent, string) error { return errors.New("its settings cannot be saved") }
	if err := d.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "its settings cannot be saved") {
		t.Fatalf("error %v", err)
	}
	st := d.State.Get()
	if !recorded(st, "disk-2") || !recorded(st, "vm-2") || !recorded(st, "disk-1") || len(st.Own.Intents) != 1 || st.Own.Intents[0].Method != "delete_disk" {
		t.Errorf("disks %v, VM %s, announced %v", st.Disks, st.CurrentVMCID, st.Own.Intents)
	}
	d.Adopted = adopted
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := d.State.Get(); recorded(st, "disk-1") {
		t.Errorf("disks %v", st.Disks)
	}
	d.finished(t)
	text := d.reported()
	if first, last := strings.Index(text, "disk-2"), strings.Index(text, "disk-1 is gone"); first < 0 || last < first {
		t.Errorf("reported %s", text)
	}
}

// If there is no CPI, or the state cannot be written, all calls stay announced.
func TestSettleFails(t *testing.T) {
	t.Parallel()
	for _, in := range []state.Intent{{Method: "create_disk", Size: 20}, {Method: "update_disk", Disk: "disk-1", Size: 20}, {Method: "delete_disk", CID: "disk-1"}} {
		for _, reply := range []string{`{"result":"disk-2"}`, refusal, ``} {
			d := deployed(t, map[string]string{"has_disk": yes})
			d.leave(t, in, reply)
			before := d.replies(t)
			client := d.CPI
			d.CPI = func(context.Context) (*cpi.Client, error) { return nil, errors.New("it does not compile") }
			if err := d.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "it does not compile") {
				t.Errorf("%s without a CPI: %v", in.Method, err)
			}
			d.CPI = client
			path := filepath.Join(d.dir, "state.json")
			if err := errors.Join(os.Rename(path, filepath.Join(d.dir, "kept.json")), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := d.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "state.json") {
				t.Errorf("%s without a state: %v", in.Method, err)
			}
			if open := d.State.Get().Own.Intents; len(open) != 1 || !slices.Equal(d.replies(t), before) {
				t.Errorf("%s: announced %v, replies %v", in.Method, open, d.replies(t))
			}
			d.repairState(t)
			if err := d.Settle(t.Context()); err != nil {
				t.Errorf("%s: %v", in.Method, err)
			}
			d.finished(t)
		}
	}
}

// If a run is interrupted while it settles calls, the unsettled ones stay announced.
func TestSettleInterrupted(t *testing.T) {
	t.Parallel()
	for _, in := range []state.Intent{{Method: "create_vm"}, {Method: "update_disk", Disk: "disk-1"}, {Method: "delete_vm", CID: "vm-1"}} {
		d := deployed(t, map[string]string{"has_vm": no, "has_disk": no})
		ctx, cancel := context.WithCancel(t.Context())
		d.WhoIsThere = func(context.Context, state.Intent) (string, string) { cancel(); return "", "interrupted" }
		d.leave(t, in, "")
		if in.Method != "create_vm" {
			cancel()
		}
		if err := d.Settle(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", in.Method, err)
		}
		if st := d.State.Get(); len(st.Own.Intents) != 1 || len(st.Own.Leftovers) > 0 || st.CurrentVMCID != "vm-1" {
			t.Errorf("%s: announced %v, leftovers %v", in.Method, st.Own.Intents, st.Own.Leftovers)
		}
	}
}
