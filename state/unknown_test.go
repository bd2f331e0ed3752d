package state

import (
	"bytes"
	"encoding/json"
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

// FuzzUnknown reads and writes states with unknown keys: Encode and Decode keep
// all of them.
func FuzzUnknown(f *testing.F) {
	for _, seed := range []string{
		`{"later": {"a": [1, "<"]}, "current_manifest_sha1": "x", "DISKS": null, "": 1, "bootstrap": {"format": 1, "later": 1e400}}`,
		`{"a\u0000b": "\ud800", "bootstrap": {"Format": 1, "format": 1, "x": {}}}`, `{"bootstrap": null, "Bootstrap": {"y": 1}}`, `{"x": 1, "x": 2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := Decode(data)
		if err != nil {
			return
		}
		written, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		again, own, err := Decode(written)
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

// Records in lists keep keys that this version does not know.
func TestUnknownInLists(t *testing.T) {
	t.Parallel()
	text := `{
		"disks": [{"id": "d", "cid": "disk-1", "size": 1, "cloud_properties": {}, "later": {"a": 1}}],
		"stemcells": [{"id": "s", "name": "os", "version": "1", "cid": "sc-1", "later": 2}],
		"releases": [{"id": "r", "name": "web", "version": "1", "later": 3}],
		"bootstrap": {"format": 1, "swap": {"cid": "vm-0", "later": 4},
			"addresses": [{"network": "n", "address": "10.0.0.1", "since": "2026-01-01T00:00:00Z", "later": 5}],
			"orphans": [{"cid": "disk-0", "size": 1, "since": "2026-01-01T00:00:00Z", "why": "w", "later": 6}],
			"snapshots": [{"cid": "snap", "disk": "disk-1", "taken": "2026-01-01T00:00:00Z", "later": 7}],
			"intents": [{"id": "i", "method": "create_vm", "started": "2026-01-01T00:00:00Z", "later": 8}],
			"leftovers": [{"id": "l", "method": "create_vm", "started": "2026-01-01T00:00:00Z", "why": "killed", "later": 9}]}}`
	s, _, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := s.clone()
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(&copied)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"later":{"a":1}`, `"later":2`, `"later":3`, `"later":4`, `"later":5`, `"later":6`, `"later":7`, `"later":8`, `"later":9`, `"why":"killed"`} {
		if !bytes.Contains(written, []byte(want)) {
			t.Errorf("%s is lost in %s", want, written)
		}
	}
	if s.Own.Leftovers[0].Why != "killed" {
		t.Errorf("the leftover is %+v", s.Own.Leftovers[0])
	}
}
