//go:build unix

package instance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bootstrap/deployer/kept"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// When the state is locked, files of a killed run are removed: rendered templates, parts
// of stemcells, and replies of calls whose results are in the state.
func TestSweep(t *testing.T) {
	t.Parallel()
	left := []string{"rendered-1/a", "stemcell-2/b", "replies/settled.json", "replies/settled.pid", "replies/open.json", "cpi/keep", "installation.json"}
	for name, c := range map[string]struct {
		foreign bool // true: another tool has written the state
		keeps   []string
	}{
		"own":             {keeps: []string{"cpi/keep", "installation.json", "replies/open.json"}},
		"of another tool": {foreign: true, keeps: []string{"cpi/keep", "installation.json", "replies/open.json", "replies/settled.json", "replies/settled.pid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			for _, path := range left {
				path = filepath.Join(w.Dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.record(t, func(st *state.State) { st.Own.Intents = []state.Intent{{ID: "open", Method: "create_disk"}} })
			if c.foreign {
				path := filepath.Join(w.dir, "foreign.json")
				if err := os.WriteFile(path, []byte(`{"current_vm_cid":"vm-1"}`), 0o600); err != nil {
					t.Fatal(err)
				}
				store, err := file.OpenReadOnly(path, file.Options{Home: w.dir})
				if err != nil {
					t.Fatal(err)
				}
				w.State = store
			}
			w.sweep()
			var keeps []string
			for _, path := range left {
				if Exists(filepath.Join(w.Dir, path)) {
					keeps = append(keeps, path)
				}
			}
			slices.Sort(keeps)
			if !slices.Equal(keeps, c.keeps) {
				t.Errorf("kept are %q, want %q", keeps, c.keeps)
			}
			w.mustSay(t, "")
		})
	}
}

// A first run that wrote no state removes its folder; a later one keeps it.
func TestUnlock(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"nothing was written": false, "the state was written": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			w.StatePath = filepath.Join(t.TempDir(), "state.json")
			if err := w.Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(w.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if writes {
				w.record(t, func(*state.State) {})
			}
			dir := w.Dir
			w.Close()
			if Exists(dir) != writes || Exists(w.StatePath) != writes {
				t.Errorf("folder %v, state %v", Exists(dir), Exists(w.StatePath))
			}
		})
	}
}

// A plan reads the state without a lock, and creates no folder.
func TestPeek(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{}, nil)
	locked := w.State
	if err := w.Peek(t.Context()); err != nil {
		t.Fatal(err)
	}
	scratch := w.Scratch
	if w.State == locked || w.State.Get().CurrentVMCID != "vm-1" || w.CPI.dir() != scratch || !Exists(scratch) {
		t.Errorf("state %+v, CPI in %s", w.State.Get(), w.CPI.dir())
	}
	w.Close()
	if Exists(scratch) {
		t.Error("the folder of the plan is left")
	}
}

// Commands read the manifest only if this machine's record is not enough.
func TestFindInstallation(t *testing.T) {
	t.Parallel()
	good := kept.Deployment{Name: "d", Group: "web", MBus: "https://mbus:password@10.0.0.5:6868"}
	for name, c := range map[string]struct {
		from    Options
		known   kept.Deployment
		cpi     bool // true: the CPI is installed
		refused string
		says    string
	}{
		"recorded, with a CPI":     {from: Options{Manifest: "m.yml"}, known: good, cpi: true, says: "the manifest is not read"},
		"recorded, without a CPI":  {from: Options{Manifest: "m.yml"}, known: good},
		"recorded, no manifest":    {known: good, cpi: true, says: "the manifest is not read"},
		"damaged":                  {known: kept.Deployment{Name: "d", MBus: ":"}, refused: "this machine's record of the deployment is damaged"},
		"nothing, and no manifest": {refused: "this machine does not know the deployment"},
		"nothing is recorded":      {from: Options{Manifest: "/nowhere/m.yml"}, refused: "/nowhere/m.yml"},
		"sealed, and nobody can read it": {
			from: Options{Manifest: "m.yml"}, known: kept.Deployment{Name: "d", MBus: good.MBus, Sealed: []byte("x")},
			says: "no identity can decrypt them without a question",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.from, nil)
			w.read, w.About, w.Known, w.CPI.Build = nil, kept.Deployment{}, c.known, nil
			if c.cpi {
				w.Known.CPI = filepath.Join(w.dir, "cpi")
			}
			refused(t, w.FindInstallation(t.Context()), c.refused)
			if c.refused != "" {
				return
			}
			if w.About.Name != "d" || (w.CPI.Build != nil) != c.cpi {
				t.Errorf("about %+v, CPI %+v", w.About, w.CPI.Build)
			}
			w.mustSay(t, c.says)
		})
	}
}

// New values replace those that the VM uses only after a question, and never if the vars
// store is lost.
func TestUsedVariables(t *testing.T) {
	t.Parallel()
	vm := state.State{CurrentVMCID: "vm-1"}
	some := vm
	some.Own.Variables = []string{"b"}
	for name, c := range map[string]struct {
		st     state.State
		used   []string
		lost   string // the error if the vars store does not exist
		inTeam string // the same error for the store of a team
	}{
		"no VM":                         {},
		"a VM of an earlier version":    {st: vm, used: []string{"a", "b"}, lost: "the vars store creds.yml does not exist", inTeam: "restore vars.yml.age there"},
		"a VM that uses one":            {st: some, used: []string{"b"}, lost: "the deployment has VM vm-1", inTeam: "bootstrap secrets init --state creds.yml"},
		"a disk that a person may want": {st: state.State{CurrentDiskID: "d", Disks: []state.Disk{{ID: "d", CID: "disk-1"}}}, used: []string{"a", "b"}, lost: "the deployment has disk disk-1", inTeam: "creds.yml has no vars store"},
		"a named disk":                  {st: state.State{Disks: []state.Disk{{ID: "d", CID: "disk-1"}}, Own: state.Own{NamedDisks: []state.NamedDisk{{Name: "data", ID: "d"}}}}, used: []string{"a", "b"}, lost: "the deployment has disk disk-1", inTeam: "creds.yml has no vars store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := UsedAlready(c.st, []string{"a", "b"}); !slices.Equal(got, c.used) {
				t.Errorf("used are %q, want %q", got, c.used)
			}
			refused(t, RefuseLostStore(c.st, "state.json", "creds.yml", true, false), "")
			refused(t, RefuseLostStore(c.st, "state.json", "creds.yml", false, false), c.lost)
			refused(t, RefuseLostStore(c.st, "state.json", "creds.yml", false, true), c.inTeam)
		})
	}
}

// The URL of the service is the first URL of a health check.
func TestServiceURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ check, want string }{
		"none":         {},
		"a path":       {"http:///ping", "http://10.0.0.5/ping"},
		"a port":       {"http://:8080/ping", "http://10.0.0.5:8080/ping"},
		"another host": {"http://page.example.com/", "http://page.example.com/"},
		"a password":   {"http://user:secret@page.example.com/", "http://user:xxxxx@page.example.com/"},
		"a broken one": {"http://[", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(NewEnv(Config{}), Options{})
			d.About.Health = []manifest.HealthCheck{{}, {HTTP: c.check}, {HTTP: "http://later.example.com/"}}
			if c.check == "" {
				d.About.Health = d.About.Health[:1]
			}
			if got := d.serviceURL("10.0.0.5"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
