//go:build unix

package deployer

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/cpi"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/internal/programtest"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// scripted is a run with a CPI that has one line of bash for each method, and with a
// state that records a VM, a disk and a stemcell.
type scripted struct {
	*run
	client *cpi.Client
	dir    string
	calls  func() string // the methods that were called, except info
	said   func() string
}

func scriptedRun(t *testing.T, methods map[string]string) scripted {
	t.Helper()
	dir := t.TempDir()
	program := "#!/bin/bash\ncd " + dir + "\nrequest=$(cat)\ncase $request in\n" +
		`*'"method":"info"'*) echo '{"result":{"stemcell_formats":["x"],"api_version":2}}'; exit;;` + "\n"
	for method, body := range methods {
		program += fmt.Sprintf("*'\"method\":%q'*) echo %s >>calls; %s;;\n", method, method, body)
	}
	program += `*) echo '{"error":{"type":"Bosh::Clouds::NotImplemented","message":"no"}}';;` + "\nesac\n"
	path := filepath.Join(dir, "cpi")
	programtest.Write(t, path, program)
	f, err := file.Open(t.Context(), filepath.Join(dir, "state.json"), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	err = f.Update(func(st *state.State) error {
		st.CurrentVMCID, st.CurrentStemcellID, st.CurrentDiskID = "vm-1", "s", "d"
		st.Own.AgentID, st.Own.Reached = "agent-1", true
		st.Stemcells = []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}}
		st.Disks = []state.Disk{{ID: "d", CID: "disk-1"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	r := newRun(Options{Config: instance.Config{
		Redact: func(s string) string { return s }, Secret: func(...string) {}, Getenv: os.Getenv, CPITimeout: time.Minute,
		Report:  func(e report.Event) { said = append(said, string(e.Kind)+": "+e.Message) },
		OpenLog: func(string) (io.WriteCloser, error) { return os.OpenFile(os.DevNull, os.O_WRONLY, 0) },
	}})
	r.t.State, r.t.Dir, r.t.CPI.Build = f, dir, &installation.Installation{Path: path}
	r.vm = "vm-1"
	r.journal = r.newJournal()
	client, err := r.t.CPI.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.t.Close)
	return scripted{
		run:    r,
		client: client,
		dir:    dir,
		calls: func() string {
			text, _ := os.ReadFile(filepath.Join(dir, "calls"))
			return strings.Join(strings.Fields(string(text)), " ")
		},
		said: func() string { return strings.Join(said, "\n") },
	}
}

const (
	good = `echo '{"result":null}'`
	yes  = `echo '{"result":true}'`
	no   = `echo '{"result":false}'`
	dies = `kill -KILL $$`
)

func refuses(kind string) string {
	return fmt.Sprintf(`echo '{"error":{"type":%q,"message":"no way"}}'`, kind)
}

func emptyManifest() *manifest.Manifest { return &manifest.Manifest{Name: "simple"} }

// lost means that the reply's file does not exist, as after restoring an older state.
const lost = "lost"

// leaveIntent writes the state and the reply of a run that was killed during a CPI call.
func (r scripted) leaveIntent(t *testing.T, in state.Intent, reply string, begun bool) state.Intent {
	t.Helper()
	in, err := r.journal.Announce(in)
	switch {
	case err == nil && reply == lost:
		err = os.Remove(in.Reply)
	case err == nil && begun:
		err = os.WriteFile(in.Reply, []byte(reply), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The result of an interrupted create is taken from its reply, or from the agent;
// otherwise it becomes a leftover.
func TestSettleCreate(t *testing.T) {
	t.Parallel()
	vm := state.Intent{Method: "create_vm", AgentID: "agent-2", StemcellID: "s", Group: "web"}
	disk := state.Intent{Method: "create_disk", Size: 10}
	for name, c := range map[string]struct {
		in      state.Intent
		reply   string
		begun   bool
		agent   string // agent id in the agent's answer; empty: no agent answers
		has     string
		made    string // recorded CID
		why     string // part of the leftover's reason
		current string // the VM that was recorded before

		snapshot bool // snap-1 was recorded before
		moved    bool // true: the manifest has another address now
	}{
		"the CPI finished it":         {in: vm, reply: `{"result":["vm-2",{}]}`, begun: true, made: "vm-2"},
		"the CPI refused it":          {in: vm, reply: `{"error":{"type":"Bosh::Clouds::CloudError","message":"no"}}`, begun: true},
		"never begun":                 {in: vm},
		"the reply is lost":           {in: vm, reply: lost, why: "the file with the CPI's reply does not exist any more, and no agent identifies itself"},
		"the reply is lost, a VM":     {in: vm, reply: lost, agent: "agent-2", has: yes, made: "vm-2"},
		"the reply is lost, a disk":   {in: disk, reply: lost, why: "does not exist any more; look in the cloud for a disk"},
		"its agent answers":           {in: vm, reply: `{"resu`, begun: true, agent: "agent-2", has: yes, made: "vm-2"},
		"its agent, where it was":     {in: vm, reply: `{"resu`, begun: true, agent: "agent-2", has: yes, made: "vm-2", moved: true},
		"of an unknown name":          {in: vm, begun: true, agent: "agent-2", has: no, why: `its agent answers on VM "vm-2", but that is not its CID`},
		"the CPI cannot tell":         {in: vm, begun: true, agent: "agent-2", has: refuses(cpi.TypeNotImplemented), why: "the CPI cannot say"},
		"another agent answers":       {in: vm, begun: true, agent: "agent-3", has: yes, why: "another agent (agent-3) answers"},
		"no agent answers":            {in: vm, begun: true, has: yes, why: "no agent identifies itself"},
		"a disk that is made":         {in: disk, reply: `{"result":"disk-2"}`, begun: true, made: "disk-2"},
		"a disk nobody knows of":      {in: disk, begun: true, why: "the CPI left no reply; look in the cloud for a disk of 10 MiB without tags"},
		"a snapshot that is taken":    {in: state.Intent{Method: "snapshot_disk", Disk: "disk-1"}, reply: `{"result":"snap-1"}`, begun: true, snapshot: true},
		"a snapshot nobody knows of":  {in: state.Intent{Method: "snapshot_disk", Disk: "disk-1"}, begun: true, why: "look in the cloud for a snapshot of disk disk-1"},
		"made twice":                  {in: disk, reply: `{"result":"disk-1"}`, begun: true, why: "the same CID twice"},
		"made while there is another": {in: vm, reply: `{"result":"vm-2"}`, begun: true, current: "vm-1", why: "while VM vm-1 is recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{"has_vm": c.has})
			r.t.Env.AgentTimeout = time.Minute
			if c.agent == "" {
				r.t.Env.AgentTimeout = 100 * time.Millisecond
			}
			r.reads(emptyManifest())
			r.t.About.MBus, r.t.About.CA = agentAt(t, c.agent)
			if c.moved {
				coming := kept.Agent{MBus: r.t.About.MBus, CA: r.t.About.CA, AgentID: "agent-2"}
				if err := r.t.Agents.Keep(kept.Agent{Coming: &coming}); err != nil {
					t.Fatal(err)
				}
				r.t.About.MBus, _ = agentAt(t, "agent-3")
			}
			if err := r.t.State.Update(func(st *state.State) error { st.CurrentVMCID = c.current; return nil }); err != nil {
				t.Fatal(err)
			}
			r.leaveIntent(t, c.in, c.reply, c.begun)
			if err := r.journal.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := r.t.State.Get()
			if len(st.Own.Intents) > 0 || st.Owns("vm-2") != (c.made == "vm-2") || st.Owns("disk-2") != (c.made == "disk-2") {
				t.Errorf("intents %v, VM %s, disks %v", st.Own.Intents, st.CurrentVMCID, st.Disks)
			}
			if (len(st.Own.Snapshots) == 1) != c.snapshot || c.snapshot && (st.Own.Snapshots[0].CID != "snap-1" || st.Own.Snapshots[0].Disk != "disk-1") {
				t.Errorf("snapshots %v", st.Own.Snapshots)
			}
			why := ""
			for _, l := range st.Own.Leftovers {
				why += l.Why
			}
			if !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("leftovers %q, want %q", why, c.why)
			}
			if c.why != "" && !strings.Contains(r.said(), "warning: ") {
				t.Errorf("no warning in %s", r.said())
			}
			if left, _ := os.ReadDir(filepath.Join(r.t.Dir, "replies")); len(left) > 0 {
				t.Errorf("replies %v are left", left)
			}
		})
	}
}

// agentAt serves an agent on VM vm-2 with this id; none if the id is empty.
func agentAt(t *testing.T, id string) (mbus, ca string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if strings.Contains(string(body), `"ping"`) {
			fmt.Fprint(w, `{"value":"pong"}`)
			return
		}
		fmt.Fprintf(w, `{"value":{"agent_id":%q,"vm":{"name":"vm-2"},"job_state":"running"}}`, id)
	}))
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	mbus = strings.Replace(server.URL, "https://", "https://mbus:password@", 1)
	if id == "" {
		server.Close()
	} else {
		t.Cleanup(server.Close)
	}
	return mbus, ca
}
