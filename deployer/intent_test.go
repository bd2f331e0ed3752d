//go:build unix

package deployer

import (
	"context"
	"encoding/pem"
	"errors"
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
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// scripted is a run with a CPI that has one line of bash per method, and with a
// state that records a VM, a disk and a stemcell.
type scripted struct {
	*run
	client *cpi.Client
	dir    string
	calls  func() string // the methods called, except info
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
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
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
	good    = `echo '{"result":null}'`
	yes     = `echo '{"result":true}'`
	no      = `echo '{"result":false}'`
	garbage = `echo oops`
	dies    = `kill -KILL $$`
)

func refuses(kind string) string {
	return fmt.Sprintf(`echo '{"error":{"type":%q,"message":"no way"}}'`, kind)
}

func TestDestroy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, reply, has string
		gone               bool // no longer recorded
		open               bool // the intent stays
		skipped            bool
		err                string // part of the leftover's reason
		calls              string
	}{
		"done":                              {"delete_vm", good, no, true, false, false, "", "delete_vm"},
		"gone before":                       {"delete_vm", refuses(cpi.TypeVMNotFound), no, true, false, true, "", "delete_vm"},
		"another thing is gone":             {"delete_disk", refuses(cpi.TypeVMNotFound), yes, false, false, false, "no way", "delete_disk has_disk"},
		"an error, and gone":                {"delete_vm", refuses(cpi.TypeCloudError), no, true, false, false, "", "delete_vm has_vm"},
		"an error, and there":               {"delete_vm", refuses(cpi.TypeCloudError), yes, false, false, false, "no way", "delete_vm has_vm"},
		"an error, and nobody can tell":     {"delete_vm", refuses(cpi.TypeCloudError), refuses(cpi.TypeNotImplemented), false, false, false, "no way", "delete_vm has_vm"},
		"garbage, and gone":                 {"delete_disk", garbage, no, true, false, false, "", "delete_disk has_disk"},
		"killed, and there":                 {"delete_disk", dies, yes, false, false, false, "signal: killed", "delete_disk has_disk"},
		"killed, and nobody can tell":       {"delete_disk", dies, garbage, false, true, false, "signal: killed", "delete_disk has_disk"},
		"a stemcell":                        {"delete_stemcell", good, "", true, false, false, "", "delete_stemcell"},
		"a stemcell that is gone":           {"delete_stemcell", refuses(cpi.TypeStemcellNotFound), "", true, false, true, "", "delete_stemcell"},
		"a stemcell and an error":           {"delete_stemcell", refuses(cpi.TypeCloudError), "", false, false, false, "no way", "delete_stemcell"},
		"a stemcell, and the CPI is killed": {"delete_stemcell", dies, "", false, true, false, "signal: killed", "delete_stemcell"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{c.method: "grep -q '\"method\": \"" + c.method + "\"' state.json && " + c.reply, "has_vm": c.has, "has_disk": c.has})
			cid := map[string]string{"delete_vm": "vm-1", "delete_disk": "disk-1", "delete_stemcell": "sc-1"}[c.method]
			err := r.journal.Delete(t.Context(), state.Intent{Method: c.method, CID: cid}, func(client *cpi.Client) error {
				return deleteBy(t.Context(), client, c.method, cid)
			})
			var skipped report.Skip
			if errors.As(err, &skipped) != c.skipped || (err == nil || c.skipped) != (c.err == "") || c.err != "" && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q, skipped %t", err, c.err, c.skipped)
			}
			st := r.t.State.Get()
			if recorded(st, cid) == c.gone {
				t.Errorf("recorded %t, want %t", recorded(st, cid), !c.gone)
			}
			if open := len(st.Own.Intents) == 1; open != c.open {
				t.Errorf("intents %v, want one %t", st.Own.Intents, c.open)
			}
			left, _ := os.ReadDir(filepath.Join(r.t.Dir, "replies"))
			if kept := len(left) > 0; kept != c.open {
				t.Errorf("replies %v, want some %t", left, c.open)
			}
			if r.calls() != c.calls {
				t.Errorf("calls %q, want %q", r.calls(), c.calls)
			}
		})
	}
}

func emptyManifest() *manifest.Manifest { return &manifest.Manifest{Name: "simple"} }

func deleteBy(ctx context.Context, c *cpi.Client, method, cid string) error {
	switch method {
	case "delete_vm":
		return c.DeleteVM(ctx, cid)
	case "delete_disk":
		return c.DeleteDisk(ctx, cid)
	}
	return c.DeleteStemcell(ctx, cid)
}

func recorded(st state.State, cid string) bool {
	sc, d := st.Stemcell(), st.Disk()
	return st.CurrentVMCID == cid || sc != nil && sc.CID == cid || d != nil && d.CID == cid
}

// An interrupted delete is settled by its reply or, without one, by asking the
// CPI.
func TestSettleDelete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, reply, has string
		gone               bool
		calls              string
	}{
		"done":                    {"delete_vm", `{"result":null}`, yes, true, ""},
		"gone before":             {"delete_disk", `{"error":{"type":"Bosh::Clouds::DiskNotFound","message":"no"}}`, yes, true, ""},
		"refused, and there":      {"delete_vm", `{"error":{"type":"T","message":"no"}}`, yes, false, "has_vm"},
		"refused, and gone":       {"delete_vm", `{"error":{"type":"T","message":"no"}}`, no, true, "has_vm"},
		"killed, and gone":        {"delete_disk", ``, no, true, "has_disk"},
		"killed, and there":       {"delete_disk", ``, yes, false, "has_disk"},
		"nobody can tell":         {"delete_vm", `{"resu`, garbage, false, "has_vm"},
		"never begun":             {"delete_vm", absent, no, false, ""},
		"the reply is lost":       {"delete_vm", lost, no, true, "has_vm"},
		"a stemcell, and killed":  {"delete_stemcell", ``, "", false, ""},
		"a stemcell that is gone": {"delete_stemcell", `{"result":true}`, "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{"has_vm": c.has, "has_disk": c.has})
			cid := map[string]string{"delete_vm": "vm-1", "delete_disk": "disk-1", "delete_stemcell": "sc-1"}[c.method]
			r.leaveIntent(t, state.Intent{Method: c.method, CID: cid}, c.reply, c.reply != absent)
			if err := r.journal.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := r.t.State.Get()
			if recorded(st, cid) == c.gone || len(st.Own.Intents) > 0 || len(st.Own.Leftovers) > 0 {
				t.Errorf("recorded %t, want %t; intents %v, leftovers %v", recorded(st, cid), !c.gone, st.Own.Intents, st.Own.Leftovers)
			}
			if r.calls() != c.calls {
				t.Errorf("calls %q, want %q", r.calls(), c.calls)
			}
			if !strings.Contains(r.said(), "An earlier run was interrupted during "+c.method) {
				t.Errorf("said %s", r.said())
			}
		})
	}
}

// absent is the reply of a call that had not begun.
const absent = "absent"

// lost means that the reply's file was removed, as when an older state is
// restored.
const lost = "lost"

// leaveIntent leaves the state and the reply as a run does that is killed during
// a CPI call.
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

// An interrupted create is settled by its reply, else by the agent; else it
// becomes a leftover.
func TestSettleCreate(t *testing.T) {
	t.Parallel()
	vm := state.Intent{Method: "create_vm", AgentID: "agent-2", StemcellID: "s", Group: "web"}
	disk := state.Intent{Method: "create_disk", Size: 10}
	for name, c := range map[string]struct {
		in      state.Intent
		reply   string
		begun   bool
		agent   string // its agent id; empty: no agent answers
		has     string
		made    string // CID
		why     string // part of the leftover's reason
		current string // the VM that is recorded before

		snapshot bool // snap-1 is recorded
		moved    bool // the manifest has another address now
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
			r.t.UseManifest(emptyManifest())
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

// agentAt serves an agent with that id, on VM vm-2; nothing for an empty id.
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

// A CPI that still runs is waited for.
func TestSettleWaits(t *testing.T) {
	t.Parallel()
	r := scriptedRun(t, map[string]string{"create_disk": "until [ -e go ]; do sleep 0.01; done; echo '{\"result\":\"disk-2\"}'"})
	in, err := r.journal.Announce(state.Intent{Method: "create_disk", Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	go func() {
		_, err := r.client.Recorded(in.Reply).CreateDisk(context.Background(), 10, nil, "")
		called <- err
	}()
	for deadline := time.Now().Add(time.Minute); r.calls() == "" && time.Now().Before(deadline); {
		<-time.After(5 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.journal.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it works: %v", err)
	}
	if !strings.Contains(r.said(), "which the CPI is still running") {
		t.Errorf("said %s", r.said())
	}
	if err := os.WriteFile(filepath.Join(r.t.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.journal.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.t.State.Get(); !st.Owns("disk-2") || len(st.Own.Intents) > 0 {
		t.Errorf("disks %v, intents %v", st.Disks, st.Own.Intents)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
}

func TestLeftoversAreLimited(t *testing.T) {
	t.Parallel()
	var st state.State
	for i := range 60 {
		in := state.Intent{ID: fmt.Sprint(i), Method: "create_disk"}
		st.Own.Intents = append(st.Own.Intents, in)
		if err := st.LeaveBehind(in, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(st.Own.Leftovers); n != 50 || st.Own.Leftovers[0].ID != "10" || len(st.Own.Intents) > 0 {
		t.Errorf("%d leftovers, first %s", n, st.Own.Leftovers[0].ID)
	}
}

func TestLeftoversAreAboutOneThingEach(t *testing.T) {
	t.Parallel()
	var st state.State
	for _, in := range []state.Intent{
		{ID: "1", Method: "delete_vm", CID: "vm-9"}, {ID: "2", Method: "delete_vm", CID: "vm-9"},
		{ID: "3", Method: "create_disk"}, {ID: "4", Method: "create_disk"},
	} {
		if err := st.LeaveBehind(in, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(st.Own.Leftovers); n != 3 || st.Own.Leftovers[0].ID != "2" {
		t.Errorf("leftovers %v", st.Own.Leftovers)
	}
}
