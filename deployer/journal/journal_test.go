//go:build unix

package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/internal/programtest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// deployment is a journal with a state file that records a VM, a disk, an orphan and a
// stemcell. Its CPI is a script.
type deployment struct {
	*Journal
	dir    string // folder of the state, the CPI and ~/.bosh
	client *cpi.Client
	events []string // events of the run: kind and message
}

// Replies of the script.
const (
	null    = `echo '{"result":null}'`
	yes     = `echo '{"result":true}'`
	no      = `echo '{"result":false}'`
	garbage = `echo oops`
	dies    = `kill -KILL $$`
	hangs   = `exec sleep 600`
)

func result(cid string) string { return fmt.Sprintf(`echo '{"result":%q}'`, cid) }

func refuses(kind string) string {
	return fmt.Sprintf(`echo '{"error":{"type":%q,"message":"no way"}}'`, kind)
}

// script writes a CPI with one line of bash for each method. It lists its calls with
// their arguments, except info, and copies the state at the time of each call.
func script(t *testing.T, dir string, methods map[string]string) string {
	t.Helper()
	text := "#!/bin/bash\ncd " + dir + "\nrequest=$(cat)\n" +
		`case $request in *'"method":"info"'*) echo '{"result":{"stemcell_formats":["x"],"api_version":2}}'; exit;; esac` + "\n" +
		`method=${request#*'"method":"'} method=${method%%'"'*} arguments=${request#*'"arguments":'} arguments=${arguments%%',"context"'*}` + "\n" +
		"echo \"$method $arguments\" >>calls; cp state.json at-$method.json\ncase $method in\n"
	for method, body := range methods {
		text += method + ") " + body + ";;\n"
	}
	text += "*) " + refuses(cpi.TypeNotImplemented) + ";;\nesac\n"
	path := filepath.Join(dir, "cpi")
	programtest.Write(t, path, text)
	return path
}

func deployed(t *testing.T, methods map[string]string) *deployment {
	t.Helper()
	dir := t.TempDir()
	script(t, dir, methods)
	d := opened(t, dir, cpi.Config{})
	t.Cleanup(func() { d.State.Close() })
	d.change(t, func(st *state.State) {
		st.CurrentVMCID, st.CurrentStemcellID, st.CurrentDiskID = "vm-1", "s", "d"
		st.Own.AgentID, st.Own.Reached = "agent-1", true
		st.Stemcells = []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}}
		st.Disks = []state.Disk{{ID: "d", CID: "disk-1", Size: 10}}
		st.Own.Orphans = []state.Orphan{{CID: "disk-0"}}
		st.Own.Snapshots = []state.Snapshot{{CID: "snap-0", Disk: "disk-1"}}
	})
	return d
}

// opened opens the state in the folder and returns a journal. Its CPI has answered info,
// so that time limits do not include that call.
func opened(t *testing.T, dir string, config cpi.Config) *deployment {
	t.Helper()
	f, err := file.Open(t.Context(), filepath.Join(dir, "state.json"), file.Options{Home: filepath.Join(dir, "home")})
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{dir: dir}
	config.Path, config.Env, config.DirectorID = filepath.Join(dir, "cpi"), []string{"PATH=" + os.Getenv("PATH")}, "director"
	d.client = cpi.New(config)
	for {
		if _, err := d.client.Info(t.Context()); err == nil {
			break
		} else if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	d.Journal = &Journal{
		State: f, Dir: filepath.Join(dir, "home", f.Get().InstallationID), Limit: time.Minute,
		Report:     report.New(func(e report.Event) { d.events = append(d.events, string(e.Kind)+": "+e.Message+e.Name+e.Error) }),
		CPI:        func(context.Context) (*cpi.Client, error) { return d.client, nil },
		Connected:  func() bool { return true },
		About:      func() kept.Deployment { return kept.Deployment{Name: "simple"} },
		Answers:    func() bool { return true },
		Gone:       func() { d.events = append(d.events, "gone") },
		WhoIsThere: func(context.Context, state.Intent) (string, string) { return "", "nobody answers" },
		Adopted: func(_ context.Context, _ state.Intent, cid string) error {
			d.events = append(d.events, "adopted "+cid)
			return nil
		},
	}
	return d
}

// change changes the state as another step of the run does.
func (d *deployment) change(t *testing.T, fn func(*state.State)) {
	t.Helper()
	if err := d.State.Update(func(st *state.State) error { fn(st); return nil }); err != nil {
		t.Fatal(err)
	}
}

// calls returns the calls that reached the CPI, except info.
func (d *deployment) calls() string {
	text, _ := os.ReadFile(filepath.Join(d.dir, "calls"))
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "; ")
}

func (d *deployment) reported() string { return strings.Join(d.events, "\n") }

// replies returns the names of the files in the folder for replies.
func (d *deployment) replies(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(d.Dir, "replies"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// finished fails the test if a call is announced or a reply is kept.
func (d *deployment) finished(t *testing.T) {
	t.Helper()
	if open := d.State.Get().Own.Intents; len(open) > 0 {
		t.Errorf("still announced: %v", open)
	}
	if left := d.replies(t); len(left) > 0 {
		t.Errorf("replies left: %v", left)
	}
}

// breakState replaces the state file by a folder; repairState restores it.
const breakState = "mv state.json kept.json && mkdir state.json"

func (d *deployment) repairState(t *testing.T) {
	t.Helper()
	path := filepath.Join(d.dir, "state.json")
	if err := errors.Join(os.Remove(path), os.Rename(filepath.Join(d.dir, "kept.json"), path)); err != nil {
		t.Fatal(err)
	}
}

// sample is a call of one method.
type sample struct {
	in   state.Intent
	asks string // the call in the script's list
	gets string // the result of a successful call
	made string // the CID that is recorded afterwards
	gone string // the CID that is removed from the state
}

// samples has one call for each row of state.Calls.
func samples() map[string]sample {
	return map[string]sample{
		"create_vm":       {state.Intent{AgentID: "agent-2", StemcellID: "s", Group: "web", Replaces: true}, `create_vm ["agent-2","sc-1",{},{},[],{}]`, `["vm-2",{}]`, "vm-2", ""},
		"create_disk":     {state.Intent{Size: 20}, `create_disk [20,{},"vm-1"]`, `"disk-2"`, "disk-2", ""},
		"create_stemcell": {state.Intent{Stemcell: &state.Stemcell{Name: "os", Version: "2"}}, `create_stemcell ["/image",{}]`, `"sc-2"`, "sc-2", ""},
		"snapshot_disk":   {state.Intent{Disk: "disk-1"}, `snapshot_disk ["disk-1",{}]`, `"snap-1"`, "snap-1", ""},
		"resize_disk":     {state.Intent{Disk: "disk-1", Size: 20}, `resize_disk ["disk-1",20]`, `null`, "disk-1", ""},
		"update_disk":     {state.Intent{Disk: "disk-1", Size: 20}, `update_disk ["disk-1",20,{}]`, `"disk-2"`, "disk-2", "disk-1"},
		"delete_vm":       {state.Intent{CID: "vm-1"}, `delete_vm ["vm-1"]`, `null`, "", "vm-1"},
		"delete_disk":     {state.Intent{CID: "disk-1"}, `delete_disk ["disk-1"]`, `null`, "", "disk-1"},
		"delete_stemcell": {state.Intent{CID: "sc-1"}, `delete_stemcell ["sc-1"]`, `null`, "", "sc-1"},
		"delete_snapshot": {state.Intent{CID: "snap-0"}, `delete_snapshot ["snap-0"]`, `null`, "", "snap-0"},
	}
}

// call makes the call of a sample through the journal.
func (d *deployment) call(ctx context.Context, method string) error {
	in := samples()[method].in
	in.Method = method
	if in.Call().Effect == state.Deletes {
		return d.Delete(ctx, in, func(c *cpi.Client) error { return deleteCall(ctx, c, method, in.CID) })
	}
	_, err := d.Create(ctx, in, func(c *cpi.Client) (string, error) {
		switch method {
		case "create_vm":
			vm, err := c.CreateVM(ctx, cpi.VMRequest{AgentID: in.AgentID, StemcellCID: "sc-1"})
			return vm.CID, err
		case "create_disk":
			return c.CreateDisk(ctx, in.Size, nil, "vm-1")
		case "create_stemcell":
			return c.CreateStemcell(ctx, "/image", nil, nil)
		case "snapshot_disk":
			return c.SnapshotDisk(ctx, in.Disk, nil)
		case "update_disk":
			return c.UpdateDisk(ctx, in.Disk, in.Size, nil)
		}
		return in.Disk, c.ResizeDisk(ctx, in.Disk, in.Size)
	})
	return err
}

// recorded reports whether the state has the CID, also as a snapshot.
func recorded(st state.State, cid string) bool {
	return st.Owns(cid) || slices.ContainsFunc(st.Own.Snapshots, func(s state.Snapshot) bool { return s.CID == cid })
}

// When the CPI gets a call, the state announces it, with the path of its reply.
// Afterwards the result is in the state, and no call is announced.
func TestCallIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, row := range state.Calls() {
		t.Run(row.Method, func(t *testing.T) {
			t.Parallel()
			want, known := samples()[row.Method]
			if !known {
				t.Fatal("there is no sample of this method")
			}
			d := deployed(t, map[string]string{row.Method: `echo '{"result":` + want.gets + `}'`})
			if err := d.call(t.Context(), row.Method); err != nil {
				t.Fatal(err)
			}
			if d.calls() != want.asks {
				t.Errorf("the CPI is asked %s, want %s", d.calls(), want.asks)
			}
			found, err := file.Open(t.Context(), filepath.Join(d.dir, "at-"+row.Method+".json"), file.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer found.Close()
			then := found.Get()
			if n := len(then.Own.Intents); n != 1 {
				t.Fatalf("the call finds %d announced calls", n)
			}
			in := then.Own.Intents[0]
			if in.Method != row.Method || in.ID == "" || in.Reply != filepath.Join(d.Dir, "replies", in.ID+".json") || len(in.Arguments) != 24 || in.Started.IsZero() || then.Own.Salt == "" {
				t.Errorf("announced: %+v, salt %q", in, then.Own.Salt)
			}
			if want.made != "" && want.made != "disk-1" && recorded(then, want.made) || want.gone != "" && !recorded(then, want.gone) {
				t.Errorf("the result is recorded before the call")
			}
			st := d.State.Get()
			if want.made != "" && !recorded(st, want.made) || want.gone != "" && recorded(st, want.gone) {
				t.Errorf("recorded %q: %t, %q: %t", want.made, recorded(st, want.made), want.gone, recorded(st, want.gone))
			}
			if row.Effect == state.Changes && st.Disk().Size != 20 {
				t.Errorf("the disk has %d MiB", st.Disk().Size)
			}
			d.finished(t)
		})
	}
}

// A call that cannot be announced is not made, and one that cannot be made is not
// announced.
func TestNotAnnouncedNotCalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop func(*deployment) error
		err  string
	}{
		"the state cannot be written": {func(d *deployment) error {
			path := filepath.Join(d.dir, "state.json")
			return errors.Join(os.Rename(path, filepath.Join(d.dir, "kept.json")), os.Mkdir(path, 0o700))
		}, "state.json"},
		"there is no folder for replies": {func(d *deployment) error {
			return errors.Join(os.MkdirAll(d.Dir, 0o700), os.WriteFile(filepath.Join(d.Dir, "replies"), nil, 0o600))
		}, "cannot make the folder of the CPI's replies"},
		"the CPI cannot be installed": {func(d *deployment) error {
			d.CPI = func(context.Context) (*cpi.Client, error) { return nil, errors.New("it does not compile") }
			return nil
		}, "it does not compile"},
	} {
		for _, method := range []string{"create_disk", "update_disk", "delete_vm"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				d := deployed(t, map[string]string{method: null})
				if err := c.stop(d); err != nil {
					t.Fatal(err)
				}
				err := d.call(t.Context(), method)
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				if d.calls() != "" || len(d.State.Get().Own.Intents) > 0 {
					t.Errorf("calls %q, announced %v", d.calls(), d.State.Get().Own.Intents)
				}
				if info, err := os.Stat(filepath.Join(d.Dir, "replies")); err == nil && info.IsDir() && len(d.replies(t)) > 0 {
					t.Errorf("replies left: %v", d.replies(t))
				}
			})
		}
	}
}

// A call that failed with an answer, or before its CPI began, is not announced any more.
// After any other failure it stays announced, because it may have created something.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	type endings map[string]struct {
		reply string
		open  bool // true: it stays announced
		err   string
	}
	for name, c := range (endings{
		"refused":               {refuses(cpi.TypeCloudError), false, "no way"},
		"not implemented":       {refuses(cpi.TypeNotImplemented), false, "no way"},
		"the CPI is gone":       {"", false, "cannot start the CPI"},
		"no reply":              {":", true, "its standard output is empty"},
		"half a reply":          {`printf '{"result":"di'`, true, "cannot read the CPI's reply"},
		"two replies":           {result("disk-2") + "; " + result("disk-3"), true, "something follows the JSON object"},
		"killed":                {dies, true, "signal: killed"},
		"failed after a result": {"echo warning; exit 3", true, "exit status 3"},
		"no CID":                {null, true, "want a CID"},
		"not a CID":             {`echo '{"result":{"cid":"disk-2"}}'`, true, "want a CID"},
		"an empty CID":          {result(""), true, "want a CID"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{"create_disk": c.reply})
			if c.reply == "" {
				if err := os.Remove(filepath.Join(d.dir, "cpi")); err != nil {
					t.Fatal(err)
				}
			}
			before := d.State.Get()
			err := d.call(t.Context(), "create_disk")
			var unsettled *UnsettledError
			if err == nil || !strings.Contains(err.Error(), c.err) || errors.As(err, &unsettled) != c.open || c.open && unsettled.Method != "create_disk" {
				t.Errorf("error %v, want %s, unsettled %t", err, c.err, c.open)
			}
			var refused *cpi.Error
			if errors.As(err, &refused) != strings.Contains(c.err, "no way") {
				t.Errorf("the caller cannot see that it was refused: %v", err)
			}
			var ended *cpi.ExitError
			if errors.As(err, &ended) != (c.reply == dies || strings.Contains(c.err, "exit status")) {
				t.Errorf("the caller cannot see how it ended: %v", err)
			}
			st := d.State.Get()
			if c.open {
				if len(st.Own.Intents) != 1 {
					t.Fatalf("announced %v", st.Own.Intents)
				}
				reply, err := os.Stat(st.Own.Intents[0].Reply)
				folder, errFolder := os.Stat(filepath.Join(d.Dir, "replies"))
				if errors.Join(err, errFolder) != nil || reply.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700 {
					t.Errorf("reply %v, folder %v", reply, folder)
				}
			} else {
				d.finished(t)
			}
			if len(st.Disks) != len(before.Disks) {
				t.Errorf("disks %v", st.Disks)
			}
		})
	}
}

// If the end of a refused call cannot be recorded, a caller that does not need the result
// must stop, too.
func TestRefusedAndNotRecorded(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": breakState + "; " + refuses(cpi.TypeNotImplemented)})
	err := d.call(t.Context(), "create_disk")
	if err == nil || cpi.NotImplemented(err) || !strings.Contains(err.Error(), "no way") || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("error %v", err)
	}
	d.repairState(t)
	if err := d.Settle(t.Context()); err != nil || !strings.Contains(d.reported(), "create_disk, which failed") {
		t.Errorf("error %v\n%s", err, d.reported())
	}
	d.finished(t)
}

// If the state cannot be written, the CID of a created object is in the error and in a
// rescue file, and the next run records it.
func TestMadeAndNotRecorded(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": breakState + "; " + result("disk-2")})
	path := filepath.Join(d.dir, "state.json")
	err := d.call(t.Context(), "create_disk")
	if err == nil || !strings.Contains(err.Error(), "create_disk made disk-2") || !strings.Contains(err.Error(), "the CID is kept in "+path+".rescue.json, and the next run records it") {
		t.Fatalf("error %v", err)
	}
	if len(d.replies(t)) == 0 {
		t.Error("the reply was removed")
	}
	d.State.Close()
	d.repairState(t)
	next := opened(t, d.dir, cpi.Config{})
	defer next.State.Close()
	if st := next.State.Get(); !st.Owns("disk-2") {
		t.Errorf("disks %v", st.Disks)
	}
	if err := next.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.change(t, func(*state.State) {}) // The first write removes the rescue file.
	if st := next.State.Get(); len(st.Disks) != 2 || len(st.Own.Leftovers) > 0 {
		t.Errorf("disks %v, leftovers %v", st.Disks, st.Own.Leftovers)
	}
	next.finished(t)
}

// If the rescue file cannot be written either, the error has the CID, and the reply is
// kept for the next run.
func TestMadeAndRecordedNowhere(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": breakState + " && mkdir state.json.rescue.json $(echo home/*)/rescue.json; " + result("disk-2")})
	err := d.call(t.Context(), "create_disk")
	if err == nil || !strings.Contains(err.Error(), "create_disk made disk-2, but no file could record that") {
		t.Fatalf("error %v", err)
	}
	d.repairState(t)
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := d.State.Get(); !st.Owns("disk-2") {
		t.Errorf("disks %v", st.Disks)
	}
	d.finished(t)
}

// The digest of a call's arguments depends on the method, the arguments and the
// state's salt, which the first announced call records.
func TestArguments(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": result("disk-2")})
	digest := d.Arguments("create_disk", "", "", 20)
	if same := d.Arguments("create_disk", "", "", 20); digest != same {
		t.Errorf("%s and %s for the same call", digest, same)
	}
	for _, other := range []string{d.Arguments("update_disk", "", "", 20), d.Arguments("create_disk", "", "", 21), deployed(t, nil).Arguments("create_disk", "", "", 20)} {
		if other == digest {
			t.Error("another call has the same digest")
		}
	}
	if salt := d.State.Get().Own.Salt; salt != "" {
		t.Errorf("the salt %s is recorded before a call", salt)
	}
	if err := d.call(t.Context(), "create_disk"); err != nil {
		t.Fatal(err)
	}
	d.State.Close()
	next := opened(t, d.dir, cpi.Config{})
	defer next.State.Close()
	if later := next.Arguments("create_disk", "", "", 20); later != digest {
		t.Errorf("%s in the next run, want %s", later, digest)
	}
	in, err := next.Announce(state.Intent{Method: "create_disk", Arguments: "given"})
	if err != nil || in.Arguments != "given" {
		t.Errorf("announced %s, %v", in.Arguments, err)
	}
}
