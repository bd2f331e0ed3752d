//go:build unix

package instance

import (
	"context"
	"strings"
	"testing"
	"time"

	"bootstrap/manifest"
	"bootstrap/state"
)

// A look asks the agent first, and the CPI only for facts that a plan needs and the agent
// did not report.
func TestWhatALookAsks(t *testing.T) {
	t.Parallel()
	yes := map[string]string{"has_vm": "true", "has_disk": "true", "reboot_vm": "null"}
	for name, c := range map[string]struct {
		state    func(*state.State)
		manifest func(*manifest.Manifest)
		cpi      map[string]string
		disks    string // disks in the agent's report; empty: disk-1
		silent   bool
		fix      bool
		plan     bool // true: the run changes nothing
		asked    string
		refused  string
	}{
		"nothing to do":      {asked: "agent ping, agent get_state, agent list_disk"},
		"no VM, no disk":     {state: func(st *state.State) { st.CurrentVMCID, st.CurrentDiskID, st.Disks = "", "", nil }},
		"no VM, a disk":      {state: func(st *state.State) { st.CurrentVMCID = "" }, asked: "settle, cpi info, cpi has_disk"},
		"disk not mounted":   {disks: "[]", asked: "agent ping, agent get_state, agent list_disk, settle, cpi info, cpi has_disk"},
		"disk not wanted":    {manifest: func(m *manifest.Manifest) { m.Group.Disk = nil }, asked: "agent ping, agent get_state, agent list_disk, settle"},
		"another disk":       {manifest: func(m *manifest.Manifest) { m.Group.Disk.Size = 128 }, asked: "agent ping, agent get_state, agent list_disk, settle"},
		"silent":             {silent: true, asked: "settle, cpi info, cpi has_vm, cpi has_disk"},
		"silent, with --fix": {silent: true, fix: true, asked: "settle, cpi info, cpi has_vm, cpi has_disk, cpi reboot_vm"},
		"silent, in a plan":  {silent: true, fix: true, plan: true, asked: "settle, cpi info, cpi has_vm, cpi has_disk"},
		"silent and gone": {
			silent: true, fix: true, cpi: map[string]string{"has_vm": "false", "has_disk": "true"},
			asked: "settle, cpi info, cpi has_vm, cpi has_disk",
		},
		"silent, and the CPI cannot look": {
			silent: true, cpi: map[string]string{}, asked: "settle, cpi info, cpi has_vm", refused: "has_vm",
		},
		"a killed call":         {state: killedCall, asked: "agent ping, agent get_state, agent list_disk, settle"},
		"a killed call, a plan": {state: killedCall, plan: true, asked: "agent ping, agent get_state, agent list_disk, settle"},
		"a VM that was replaced": {
			state: func(st *state.State) { st.Own.Swap = &state.OldVM{CID: "vm-0", AgentID: "agent-1"} },
			asked: "agent ping, agent get_state, agent list_disk, agent ping, agent get_state, agent list_disk, settle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.cpi == nil {
				c.cpi = yes
			}
			w := newWorld(t, Options{}, c.cpi)
			w.setSilent(c.silent)
			if c.silent {
				w.Env.AgentTimeout = 10 * time.Millisecond
			}
			if c.disks != "" {
				w.agent["list_disk"] = c.disks
			}
			if c.state != nil {
				w.record(t, c.state)
			}
			if c.manifest != nil {
				c.manifest(w.in.Manifest)
			}
			if c.plan {
				w.Scratch = w.dir
			}
			l := NewLook(w.Instance, c.fix)
			if err := l.AtAgent(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := l.ByCPI(t.Context(), w.in.Manifest.Group, func(context.Context) error { w.asks("settle"); return nil })
			refused(t, err, c.refused)
			if got := strings.Join(w.asked(), ", "); got != c.asked {
				t.Errorf("asked %q, want %q", got, c.asked)
			}
		})
	}
}

func killedCall(st *state.State) {
	st.Own.Intents = []state.Intent{{ID: "i", Method: "create_disk"}}
}

// If the CPI does not know a VM whose agent answers, the CPI has wrong settings.
func TestCPIElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has     string // the answer to has_vm
		silent  bool   // true: the agent ends before it is asked again
		needed  bool
		refused string
	}{
		"known":                        {has: "true"},
		"unknown, and the agent is":    {has: "false", refused: "the CPI looks in the wrong place"},
		"unknown, and the agent ends":  {has: "false", silent: true},
		"not supported":                {},
		"not supported, and necessary": {needed: true, refused: "has_vm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cpi := map[string]string{}
			if c.has != "" {
				cpi["has_vm"] = c.has
			}
			w := newWorld(t, Options{}, cpi)
			l := NewLook(w.Instance, false)
			if err := l.AtAgent(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.setSilent(c.silent)
			refused(t, l.ForVM(t.Context(), "vm-1", c.needed), c.refused)
			if l.Facts.Answers == c.silent {
				t.Errorf("facts %+v", l.Facts)
			}
		})
	}
}

// The VM of a killed create_vm is found only if its agent and the CPI agree.
func TestWhoIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mbus   string // replaces the manifest's
		silent bool
		state  string // the agent's report
		cpi    map[string]string
		cid    string
		doubt  string
		asked  string
	}{
		"both know it": {
			state: `{"agent_id":"agent-2","vm":{"name":"vm-2"}}`, cpi: map[string]string{"has_vm": "true"}, cid: "vm-2",
			asked: "agent ping, agent get_state, cpi info, cpi has_vm",
		},
		"no address":          {mbus: "none", doubt: "the address of its agent is unknown"},
		"nobody":              {silent: true, doubt: "no agent identifies itself"},
		"another agent":       {state: `{"agent_id":"agent-3","vm":{"name":"vm-3"}}`, doubt: "another agent (agent-3) answers", asked: "agent ping, agent get_state"},
		"no name":             {state: `{"agent_id":"agent-2"}`, doubt: "does not report the name of the VM", asked: "agent ping, agent get_state"},
		"the CPI has another": {state: `{"agent_id":"agent-2","vm":{"name":"vm-2"}}`, cpi: map[string]string{"has_vm": "false"}, doubt: "that is not its CID", asked: "agent ping, agent get_state, cpi info, cpi has_vm"},
		"the CPI cannot say":  {state: `{"agent_id":"agent-2","vm":{"name":"vm-2"}}`, doubt: "the CPI cannot say", asked: "agent ping, agent get_state, cpi info, cpi has_vm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, c.cpi)
			w.agent["get_state"] = c.state
			if w.setSilent(c.silent); c.silent {
				w.Env.AgentTimeout = 10 * time.Millisecond
			}
			if c.mbus != "" {
				w.About.MBus = ""
			}
			cid, doubt := NewLook(w.Instance, false).WhoIsThere(t.Context(), state.Intent{Method: "create_vm", AgentID: "agent-2"})
			if cid != c.cid || !strings.Contains(doubt, c.doubt) || (doubt == "") != (c.doubt == "") {
				t.Errorf("it is %q, doubt %q", cid, doubt)
			}
			if got := strings.Join(w.asked(), ", "); got != c.asked {
				t.Errorf("asked %q, want %q", got, c.asked)
			}
		})
	}
}
