package team

import (
	"bytes"
	"testing"
)

// A document is accepted only if the key has signed it under its name; then its content
// is returned unchanged.
func FuzzProof(f *testing.F) {
	k := Key{1}
	for _, content := range []string{`{"a": 1}`, "{}", "{ }", "", "text\n", "{\n  \"bootstrap_proof\": 1}", "bootstrap-proof: v1"} {
		f.Add([]byte(content))
		f.Add(k.sign("state.json", 7, "ann@here", []byte(content)))
		f.Add(Key{2}.sign("state.json", 7, "ann@here", []byte(content)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		signed := k.sign("state.json", 8, string(data[:min(len(data), 9)]), data)
		judge := &trust{store: &Store{}, key: &k}
		if _, content, doubt := judge.judge("state.json", signed); doubt != nil || !bytes.Equal(content, data) {
			t.Errorf("%q came back as %q, %v", data, content, doubt)
		}
		if _, _, doubt := judge.judge("vars.yml.age", signed); doubt == nil {
			t.Errorf("%q is believed under another name", signed)
		}
		if p, content, doubt := judge.judge("state.json", data); doubt == nil && !bytes.Equal(k.sign("state.json", p.generation, p.writer, content), data) {
			t.Errorf("%q is believed, and is not what the key signs", data)
		}
	})
}
