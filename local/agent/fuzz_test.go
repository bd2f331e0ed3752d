package agent

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answers is a registry that always gives the same answer.
type answers string

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// FuzzSettings reads settings from an answer of a registry, beside files of an earlier
// agent.
func FuzzSettings(f *testing.F) {
	const good = `{"agent_id": "a", "mbus": "https://u:p@0.0.0.0:6868", "networks": {"default": {"type": "manual", "ip": "10.0.0.5"}}, "disks": {"persistent": {"disk-1": "/dev/x"}}, "env": {"bosh": {}}}`
	quoted, _ := json.Marshal(good)
	f.Add(`{"status": "ok", "settings": `+string(quoted)+`}`, "", `{"mbus": {"cert": {}}}`)
	f.Add(`{"status": "ok", "settings": "{}"}`, good, "")
	f.Add(`{"status": "not_found", "settings": ""}`, `{"agent_id": ""}`, "{}")
	f.Add("<html>", "null", "[]")
	f.Fuzz(func(t *testing.T, reply, cached, updates string) {
		dir := t.TempDir()
		s := &settings{
			cache: filepath.Join(dir, "settings.json"), updates: filepath.Join(dir, "update.json"), log: slog.New(slog.DiscardHandler),
			fetch: func(ctx context.Context) ([]byte, error) {
				return fetchRegistry(ctx, &http.Client{Transport: answers(reply)}, "http://registry", "vm-1")
			},
		}
		for path, text := range map[string]string{s.cache: cached, s.updates: updates} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.load(t.Context()); err != nil {
			return
		}
		if s.get().AgentID == "" {
			t.Fatalf("an agent without an id from %q, %q", reply, cached)
		}
	})
}

// FuzzSpec reads apply specs: a stored spec must be the same when it is read again.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		`{"job": {"name": "web", "templates": [{"name": "web", "version": "1"}]}, "packages": {"a": {"name": "a", "version": "1", "sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "blobstore_id": "b"}}, "index": 0}`,
		`{"rendered_templates_archive": {"sha1": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "blobstore_id": "b"}}`,
		`{"rendered_templates_archive": {}, "networks": {"default": null}}`, `{"packages": {"../x": {"sha1": ";"}}}`, "null", "[]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spec
		if json.Unmarshal(data, &s) != nil {
			return
		}
		for _, p := range s.Packages {
			if p.SHA1.text == "" {
				return // like the real agent, this one refuses such a package
			}
		}
		kept, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again spec
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatalf("kept as %s, which cannot be read: %v", kept, err)
		}
		if text, _ := json.Marshal(again); string(text) != string(kept) {
			t.Fatalf("kept as %s, read as %s", kept, text)
		}
	})
}
