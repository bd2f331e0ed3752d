package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/state"
)

// asCreateEnv writes the file again as create-env does: without our own part.
func asCreateEnv(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	delete(all, "bootstrap")
	if change != nil {
		change(all)
	}
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestMirror(t *testing.T) {
	for name, c := range map[string]struct {
		create func(map[string]any) // the changes that create-env makes
		same   bool                 // true: the VM is the one that this program created
	}{
		"nothing":     {nil, true},
		"another VM":  {func(s map[string]any) { s["current_vm_cid"] = "vm-2" }, false},
		"no disk":     {func(s map[string]any) { s["current_disk_id"] = "" }, false},
		"the orphan":  {func(s map[string]any) { s["disks"] = []any{map[string]any{"id": "o", "cid": "disk-0"}} }, false},
		"another key": {func(s map[string]any) { s["current_manifest_sha"] = "new" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
			f := with(t, path, home)
			update(t, f, func(s *state.State) {
				id, director := s.InstallationID, s.DirectorID
				*s = sound()
				s.InstallationID, s.DirectorID = id, director
				s.Own.AgentID, s.Own.Reached, s.Own.Made, s.Own.Salt = "agent", true, map[string]string{"env": "x"}, "salt"
			})
			want := f.Get()
			if m := mode(t, f.mirrorPath()); m != 0o600 {
				t.Errorf("mode %v", m)
			}
			f.Close()
			asCreateEnv(t, path, c.create)
			f = with(t, path, home)
			got := f.Get()
			if len(f.Notes()) != 1 {
				t.Errorf("notes %v", f.Notes())
			}
			if same := got.Own.AgentID == "agent" && got.Own.Reached && got.Own.Made["env"] == "x"; same != c.same {
				t.Errorf("own part %+v", got.Own)
			}
			orphans := 1
			if name == "the orphan" {
				orphans = 0
			}
			if len(got.Own.Orphans) != orphans || len(got.Own.Leftovers) != 1 || got.Own.Serial != want.Own.Serial || got.Own.Salt != "salt" {
				t.Errorf("what is not of the VM: %+v", got.Own)
			}
			update(t, f, func(*state.State) {})
		})
	}
}

// Open warns of a file that is older than its mirror, such as one from version control.
func TestOlderThanTheMirror(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	update(t, f, func(*state.State) {})
	f.Close()
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	again, err := Open(t.Context(), path, Options{Home: home, Warn: func(err error) { warnings = append(warnings, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "is older (serial number 1)") {
		t.Errorf("warnings %v", warnings)
	}
}

// Open also warns of an older mirror.
func TestTemporaryMirrorIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	again := func() *Store {
		f, err := Open(t.Context(), path, Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := again()
	update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
	f.Close()
	left := filepath.Join(home, f.Get().InstallationID, ".state.json77")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again().Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left %s, %v", left, err)
	}
}

// Every write keeps the keys of newer versions and other tools, in the file and in its
// mirror.
func TestUnknownKeysAreKept(t *testing.T) {
	dir := t.TempDir()
	path, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "home")
	const text = `{
	"director_id": "d", "installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10",
	"zebra": {"b": [1, 2.50, "<&>"], "a": null}, "Apple": true, "DISKS": [],
	"bootstrap": {"format": 1, "serial": 3, "later": {"x": 1}, "address": "10.0.0.1"}
}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f := with(t, path, home)
		update(t, f, func(s *state.State) { s.CurrentVMCID = "vm-1" })
		f.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := compact(t, data)
		for _, want := range []string{`"zebra":{"b":[1,2.50,"\u003c\u0026\u003e"],"a":null}`, `"Apple":true`, `"later":{"x":1}`, `"address":"10.0.0.1"`, `"current_vm_cid":"vm-1"`} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s is not once in %s", want, got)
			}
		}
		if strings.Contains(got, "DISKS") {
			t.Errorf("a key that is known is written twice: %s", got)
		}
	}
	asCreateEnv(t, path, nil) // removes the program's own part
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(compact(t, data), `"later":{"x":1}`) {
		t.Errorf("%s, %v", data, err)
	}
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var b, escaped bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	json.HTMLEscape(&escaped, b.Bytes()) // in the form of encoding/json
	return escaped.String()
}

// sound is a valid state with all kinds of records.
func sound() state.State {
	return state.State{
		DirectorID: "d", InstallationID: "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10",
		CurrentVMCID: "vm-1", CurrentStemcellID: "s", CurrentDiskID: "d", CurrentReleaseIDs: []string{"r"},
		Disks:     []state.Disk{{ID: "d", CID: "disk-1", Size: 1024}},
		Stemcells: []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}},
		Releases:  []state.Release{{ID: "r", Name: "web", Version: "1"}},
		Own: state.Own{
			Swap:      &state.OldVM{CID: "vm-0", StemcellID: "s"},
			Orphans:   []state.Orphan{{CID: "disk-0", Size: 512}},
			Intents:   []state.Intent{{ID: "i", Method: "create_vm"}},
			Leftovers: []state.Leftover{{Intent: state.Intent{ID: "l", Method: "delete_vm", CID: "vm-x"}}},
		},
	}
}
