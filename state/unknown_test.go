package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var b, escaped bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	json.HTMLEscape(&escaped, b.Bytes()) // as encoding/json writes it
	return escaped.String()
}

// What a newer version or another tool has written is there after each rewrite,
// in the file and in its mirror.
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
		update(t, f, func(s *State) { s.CurrentVMCID = "vm-1" })
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
	asCreateEnv(t, path, nil) // which drops our part
	f := with(t, path, home)
	update(t, f, func(*State) {})
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(compact(t, data), `"later":{"x":1}`) {
		t.Errorf("%s, %v", data, err)
	}
}

// FuzzUnknown reads and writes states with keys that nobody knows: what is
// written is JSON, is read as the same, and lacks none of them.
func FuzzUnknown(f *testing.F) {
	for _, seed := range []string{
		`{"later": {"a": [1, "<"]}, "current_manifest_sha1": "x", "DISKS": null, "": 1, "bootstrap": {"format": 1, "later": 1e400}}`,
		`{"a\u0000b": "\ud800", "bootstrap": {"Format": 1, "format": 1, "x": {}}}`, `{"bootstrap": null, "Bootstrap": {"y": 1}}`, `{"x": 1, "x": 2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := decode(data)
		if err != nil {
			return
		}
		written, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		again, own, err := decode(written)
		if err != nil || !own {
			t.Fatalf("wrote %s, which cannot be read: %v", written, err)
		}
		twice, err := json.Marshal(&again)
		if err != nil || string(written) != string(twice) {
			t.Fatalf("wrote %s, then %s: %v", written, twice, err)
		}
		before := unknownIn(data, &State{})
		for key, value := range before {
			if compact(t, value) != compact(t, again.unknown[key]) {
				t.Errorf("%q was %s and is %s", key, value, again.unknown[key])
			}
		}
	})
}
