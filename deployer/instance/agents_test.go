//go:build unix

package instance

import (
	"strings"
	"testing"

	"bootstrap/deployer/kept"
	"bootstrap/state"
)

// The URL and CA of a VM's agent are taken from the command line, or from this machine's
// record of the VM, or from the manifest.
func TestRecall(t *testing.T) {
	t.Parallel()
	recorded := kept.Agent{VM: "vm-1", MBus: "recorded", CA: "recorded CA"}
	for name, c := range map[string]struct {
		from   Options
		folder *kept.Agent
		vm     string
		want   string // expected mbus and CA
	}{
		"nothing is recorded":         {vm: "vm-1", want: "manifest, manifest CA"},
		"recorded":                    {folder: &recorded, vm: "vm-1", want: "recorded, recorded CA"},
		"recorded of another VM":      {folder: &recorded, vm: "vm-2", want: "manifest, manifest CA"},
		"damaged":                     {folder: &kept.Agent{VM: "vm-1"}, vm: "vm-1", want: "manifest, manifest CA"},
		"the replaced VM":             {folder: &kept.Agent{VM: "vm-2", MBus: "new", Old: &recorded}, vm: "vm-1", want: "recorded, recorded CA"},
		"a VM that was being created": {folder: &kept.Agent{VM: "vm-0", MBus: "old", Coming: &kept.Agent{AgentID: "agent-1", MBus: "coming", CA: "c"}}, vm: "vm-1", want: "coming, c"},
		"another VM was being created": {
			folder: &kept.Agent{VM: "vm-0", MBus: "old", Coming: &kept.Agent{AgentID: "agent-9", MBus: "coming"}}, vm: "vm-1", want: "manifest, manifest CA",
		},
		"--old-mbus": {from: Options{OldMBus: "flag"}, folder: &recorded, vm: "vm-1", want: "flag, manifest CA"},
		"--old-ca":   {from: Options{OldCA: "flag"}, folder: &recorded, vm: "vm-1", want: "manifest, flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.from, nil)
			w.About.MBus, w.About.CA = "manifest", "manifest CA"
			if c.folder != nil {
				if err := w.Folder().SetAgent(*c.folder); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.Agents.Recall(c.vm); got.MBus+", "+got.CA != c.want || got.VM != c.vm {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

// A look records how the agent was reached, if that is not recorded; a plan does not
// record it.
func TestLookRecordsAccess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		folder  *kept.Agent
		plan    bool
		records bool
	}{
		"nothing is recorded":         {records: true},
		"nothing is recorded, a plan": {plan: true},
		"another VM is recorded":      {folder: &kept.Agent{VM: "vm-0", MBus: "https://mbus:old@127.0.0.1:1"}, records: true},
		"a new address was coming":    {folder: &kept.Agent{VM: "vm-1", MBus: "https://mbus:other@HOST", Next: &kept.Agent{VM: "vm-1", MBus: "https://mbus:password@HOST"}}, records: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			if c.plan {
				w.Scratch = w.dir
			}
			host := strings.TrimPrefix(w.server.URL, "https://")
			if c.folder != nil {
				c.folder.MBus = strings.Replace(c.folder.MBus, "HOST", host, 1)
				if c.folder.Next != nil {
					c.folder.Next.MBus = strings.Replace(c.folder.Next.MBus, "HOST", host, 1)
				}
				c.folder.CA = w.About.CA
				if err := w.Folder().SetAgent(*c.folder); err != nil {
					t.Fatal(err)
				}
			}
			if err := NewLook(w.Instance, false).AtAgent(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, ok := w.Folder().Agent()
			if recorded := ok && now.VM == "vm-1" && now.MBus == w.About.MBus; recorded != c.records {
				t.Errorf("recorded %v: %+v", recorded, now)
			}
		})
	}
}

// The agent of another VM at the same address is refused.
func TestForeignAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorded, reported string
		foreign            bool
	}{
		"the same":    {recorded: "agent-1", reported: "agent-1"},
		"another":     {recorded: "agent-1", reported: "agent-2", foreign: true},
		"no record":   {reported: "agent-2"},
		"no agent id": {recorded: "agent-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			w.record(t, func(st *state.State) { st.Own.AgentID = c.recorded })
			w.agent["get_state"] = `{"agent_id":"` + c.reported + `"}`
			l := NewLook(w.Instance, false)
			if err := l.AtAgent(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l.Facts.Answers == c.foreign {
				t.Errorf("facts %+v", l.Facts)
			}
			if c.foreign {
				refused(t, l.Facts.AgentErr, "another VM's agent answers at")
			}
		})
	}
}
