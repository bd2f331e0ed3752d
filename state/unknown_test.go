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
