package file

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/state"
)

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"create-env.json", "bosh-init.json", "format-1.json"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "state", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"disks": [{"id": "a", "cid": "b", "cloud_properties": {"x": [1, null]}}], "current_disk_id": "a"}`))
	f.Add([]byte(`{"later": {"a": [1, "<"]}, "current_manifest_sha1": "x", "DISKS": null, "": 1, "bootstrap": {"format": 1, "later": 1e400}}`))
	f.Add([]byte(`{"bootstrap": {"format": 1, "intents": [{"id": "x", "method": "create_vm"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(t.Context(), path, Options{})
		if err != nil {
			return
		}
		defer file.Close()
		// A state that can be read can be written and read again unchanged.
		if err := file.Update(func(*state.State) error { return nil }); err != nil {
			t.Fatal(err)
		}
		want := file.Get()
		file.Close()
		again := open(t, path).Get()
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Errorf("wrote %s, read %s", a, b)
		}
	})
}

// FuzzRescue opens a state that has a damaged or forged rescue file.
func FuzzRescue(f *testing.F) {
	f.Add([]byte(`{"installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10", "made": [{"intent": {"id": "i", "method": "create_vm"}, "cid": "vm-1"}]}`))
	f.Add([]byte(`{"installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10", "made": [{"intent": {"id": "i", "method": "create_stemcell"}, "cid": "x"}, {"intent": {}, "cid": "y"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(`{"installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(rescueBeside(path), data, 0o600); err != nil {
			t.Fatal(err)
		}
		open(t, path)
	})
}

// FuzzMirror opens a state that create-env has saved, with a damaged or forged mirror.
// The state can be read, and contains everything that the file contains.
func FuzzMirror(f *testing.F) {
	const id = "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10"
	for _, s := range []string{
		`{"vm_cid": "vm-1", "disk_cid": "disk-1", "bootstrap": {"format": 1, "serial": 3, "orphans": [{"cid": "disk-2"}], "intents": [{"id": "i", "method": "create_vm"}]}}`,
		`{"vm_cid": "vm-0", "bootstrap": {"format": 1, "swap": {"cid": "vm-1"}, "leftovers": [{"intent": {"id": "i", "method": "delete_disk", "cid": "d"}}]}}`,
		`{"bootstrap": {"orphans": [{"cid": ""}]}}`, `{"bootstrap": {"intents": [{}]}}`, `{"bootstrap": {"format": 99}}`, "", "null", "[]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		home := filepath.Join(dir, "home")
		if err := os.MkdirAll(filepath.Join(home, id), 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "state.json")
		text := `{"director_id": "d", "installation_id": "` + id + `", "current_vm_cid": "vm-1", "current_disk_id": "a", "disks": [{"id": "a", "cid": "disk-1"}]}`
		for name, text := range map[string][]byte{path: []byte(text), mirrorOf(home, id): data} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := Open(t.Context(), path, Options{Home: home})
		if err != nil {
			t.Fatalf("cannot open the state with the mirror %s: %v", data, err)
		}
		defer file.Close()
		if st := file.Get(); st.CurrentVMCID != "vm-1" || st.Disk() == nil || st.Disk().CID != "disk-1" {
			t.Fatalf("the mirror changed what the file says: %+v", st)
		}
		if err := file.Update(func(*state.State) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
