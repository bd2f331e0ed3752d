//go:build unix

package deployer

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/deployer/plan"
	"bootstrap/manifest"
	"bootstrap/state"
)

// diskAgent answers like the real agent to messages about disks. At each ping, after
// which a CPI may have restarted the VM, it checks that the real agent would start: with a
// disk for each name, and with a name for each of several disks.
type diskAgent struct {
	mu     sync.Mutex
	calls  string          // file to which its methods are appended
	disks  map[string]bool // CIDs that it knows
	names  map[string]string
	faults []string
}

func (a *diskAgent) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var m struct {
		Method    string            `json:"method"`
		Arguments []json.RawMessage `json:"arguments"`
	}
	body, _ := io.ReadAll(req.Body)
	if err := json.Unmarshal(body, &m); err != nil {
		a.faults = append(a.faults, err.Error())
	}
	argument := func(out any) {
		if len(m.Arguments) == 0 || json.Unmarshal(m.Arguments[0], out) != nil {
			a.faults = append(a.faults, "arguments of "+string(body))
		}
	}
	var cid string
	switch m.Method {
	case "ping":
		a.check()
	case "add_persistent_disk":
		argument(&cid)
		a.disks[cid] = true
	case "remove_persistent_disk":
		argument(&cid)
		delete(a.disks, cid)
	case "update_settings":
		var settings struct {
			Names []struct{ Name, CID string } `json:"disk_associations"`
		}
		argument(&settings)
		a.names = map[string]string{}
		for _, n := range settings.Names {
			if !a.disks[n.CID] {
				fmt.Fprintf(w, `{"exception":{"message":"Fetching disk settings: Persistent disk with volume id '%s' could not be found"}}`, n.CID)
				return
			}
			a.names[n.Name] = n.CID
		}
	}
	if m.Method != "ping" {
		f, err := os.OpenFile(a.calls, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, m.Method)
			f.Close()
		}
	}
	answer := "ok"
	if m.Method == "ping" {
		answer = "pong"
	}
	fmt.Fprintf(w, `{"value":%q}`, answer)
}

// check records why the agent would not start.
func (a *diskAgent) check() {
	for name, cid := range a.names {
		if !a.disks[cid] {
			a.faults = append(a.faults, fmt.Sprintf("disk %s is not attached, and %s is its name", cid, name))
		}
	}
	if len(a.disks) > 1 && len(a.disks) > len(a.names) {
		a.faults = append(a.faults, fmt.Sprintf("unexpected disk attached: disks %v, names %v", a.disks, a.names))
	}
}

// The steps for named disks, one after the other, on a VM with the disks data and logs: at
// no point at which the CPI may restart the VM has the agent other disks than names.
func TestNamedDisksAndNames(t *testing.T) {
	t.Parallel()
	orphan := func(name, cid string, attached, replaced bool) plan.Step {
		return plan.Step{Kind: plan.OrphanNamed, Disk: &plan.DiskWork{CID: cid, As: name}, With: plan.With{Attached: attached, Replaced: replaced}}
	}
	create := func(name string) plan.Step {
		return plan.Step{Kind: plan.CreateNamed, Disk: &plan.DiskWork{As: name}}
	}
	detaches := "update_settings remove_persistent_disk detach_disk"
	creates := "create_disk attach_disk set_disk_metadata add_persistent_disk update_settings"
	for name, c := range map[string]struct {
		steps   []plan.Step
		missing string // CID of a disk that the CPI does not detach
		calls   string
		names   string
		orphans string
		err     string
	}{
		"another type": {
			steps: []plan.Step{orphan("logs", "disk-logs", true, true), create("logs")},
			calls: detaches + " " + creates, names: "data disk-data, logs disk-new", orphans: "disk-logs: the manifest asked for another disk named logs",
		},
		"both go, one comes": {
			steps: []plan.Step{orphan("data", "disk-data", true, false), orphan("logs", "disk-logs", true, false), create("wal")},
			calls: detaches + " " + detaches + " " + creates, names: "wal disk-new",
			orphans: "disk-data: the manifest asked for no disk named data any more, disk-logs: the manifest asked for no disk named logs any more",
		},
		"one goes, which an interrupted run has detached": {
			steps: []plan.Step{orphan("logs", "disk-logs", false, false)}, missing: "disk-logs",
			calls: detaches, names: "data disk-data", orphans: "disk-logs: the manifest asked for no disk named logs any more",
		},
		"one more":                    {steps: []plan.Step{create("wal")}, calls: creates, names: "data disk-data, logs disk-logs, wal disk-new"},
		"one is lost":                 {steps: []plan.Step{{Kind: plan.AttachNamed, Disk: &plan.DiskWork{CID: "disk-logs", As: "logs"}}}, calls: strings.TrimPrefix(creates, "create_disk "), names: "data disk-data, logs disk-logs"},
		"one that cannot be detached": {steps: []plan.Step{orphan("logs", "disk-logs", true, false)}, missing: "disk-logs", calls: detaches, names: "data disk-data", err: "no way"},
		"of another manifest":         {steps: []plan.Step{create("other")}, names: "data disk-data, logs disk-logs", err: "the manifest has no disk other"},
		"of another state":            {steps: []plan.Step{orphan("logs", "disk-9", true, false)}, names: "data disk-data, logs disk-logs", err: "does not record disk disk-9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{
				"create_disk": `echo '{"result":"disk-new"}'`, "attach_disk": `echo '{"result":"/dev/sdb"}'`, "set_disk_metadata": good,
				"detach_disk": fmt.Sprintf(`case $request in *'"%s"'*) %s ;; *) %s ;; esac`, c.missing, refuses("Bosh::Clouds::DiskNotAttached"), good),
			})
			m := emptyManifest()
			for _, name := range []string{"data", "logs", "wal"} {
				m.Group.Disks = append(m.Group.Disks, manifest.NamedDisk{Name: name, Pool: manifest.DiskPool{Size: 64}})
			}
			r.reads(m)
			r.t.Env.AgentTimeout = time.Minute
			a := &diskAgent{calls: filepath.Join(r.dir, "calls"), disks: map[string]bool{"disk-data": true, "disk-logs": true}, names: map[string]string{"data": "disk-data", "logs": "disk-logs"}}
			server := httptest.NewTLSServer(a)
			t.Cleanup(server.Close)
			ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			var err error
			if r.agent, err = r.t.Agents.New(strings.Replace(server.URL, "https://", "https://mbus:password@", 1), ca); err != nil {
				t.Fatal(err)
			}
			if err := r.t.State.Update(func(st *state.State) error {
				st.CurrentDiskID, st.Disks = "", nil
				for _, name := range []string{"data", "logs"} {
					st.AddDisk("disk-"+name, 64, nil)
					st.SetNamed(name, st.Disks[len(st.Disks)-1].ID, "vm-1")
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, s := range c.steps {
				if err = r.doers()[s.Kind](t.Context(), s); err != nil {
					break
				}
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.check()
			if calls := r.calls(); calls != c.calls {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
			st := r.t.State.Get()
			var names, orphans []string
			for name, cid := range a.names {
				names = append(names, name+" "+cid)
				if d := st.Named(name); err == nil && (d == nil || d.CID != cid || !st.Attached(name)) {
					t.Errorf("%s is recorded as %+v, of %+v", name, d, st.Own.NamedDisks)
				}
			}
			slices.Sort(names)
			for _, o := range st.Own.Orphans {
				orphans = append(orphans, o.CID+": "+o.Why)
			}
			if got := strings.Join(names, ", "); got != c.names || strings.Join(orphans, ", ") != c.orphans {
				t.Errorf("names %q, orphans %q", got, orphans)
			}
			if err == nil && len(a.faults) > 0 {
				t.Errorf("the agent would not start: %q", a.faults)
			}
		})
	}
}

// spec.persistent_disk is that of a Director: 0 without disks, nil with named ones. In the
// manifests of create-env it is nil.
func TestPersistentDiskInTemplates(t *testing.T) {
	t.Parallel()
	cloud := []string{"cloud.yml"}
	disk := &manifest.DiskPool{Size: 64}
	for name, c := range map[string]struct {
		m    manifest.Manifest
		want string
	}{
		"create-env":  {manifest.Manifest{Group: manifest.InstanceGroup{Disk: disk}}, "nil"},
		"a disk":      {manifest.Manifest{CloudConfigs: cloud, Group: manifest.InstanceGroup{Disk: disk}}, "64"},
		"no disk":     {manifest.Manifest{CloudConfigs: cloud}, "0"},
		"named disks": {manifest.Manifest{CloudConfigs: cloud, Group: manifest.InstanceGroup{Disks: []manifest.NamedDisk{{Name: "data", Pool: *disk}}}}, "nil"},
	} {
		got := "nil"
		if size := persistentDisk(&c.m); size != nil {
			got = fmt.Sprint(*size)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
