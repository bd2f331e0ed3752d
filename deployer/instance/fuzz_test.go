package instance

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
)

// FuzzKept damages files that this machine keeps of a deployment: a damaged file counts
// as missing, or is read correctly.
func FuzzKept(f *testing.F) {
	f.Add(`{"vm": "vm-1", "mbus": "https://a:b@10.0.0.5:6868", "ca": ""}`, `{"manifest": "/m.yml", "name": "web", "mbus": "https://a:b@10.0.0.5:6868", "cpi": "/nowhere", "secrets": ["x"]}`, `{"vm": "vm-1", "spec": {"packages": {"a": {"blobstore_id": "b"}}}}`)
	f.Add(`{"vm": "vm-2", "old": {"vm": "vm-1", "mbus": "ftp://x", "ca": "no PEM"}, "coming": null}`, `{"name": "web", "mbus": ":"}`, `{"vm": "vm-1", "disk": {}}`)
	f.Add(`{"coming": {"mbus": "https://h", "coming": {}}, "agent_id": "a"}`, `{"name": 1}`, `[]`)
	f.Add(`null`, ``, `{`)
	f.Fuzz(func(t *testing.T, agentText, installation, record string) {
		r := New(NewEnv(Config{Report: func(report.Event) {}}), Options{})
		r.Dir = t.TempDir()
		r.Env.Secret = func(...string) {}
		for name, text := range map[string]string{"agent.json": agentText, "installation.json": installation, filepath.Join("applied", "current", "record.json"): record} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(r.Dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.recallKnown(t.Context())
		if r.Known.Name != "" {
			if err := r.FindInstallation(t.Context()); err != nil {
				return
			}
			how := r.Agents.Recall("vm-1")
			if how.VM != "vm-1" {
				t.Fatalf("asked for vm-1, recalled %+v", how)
			}
			if c, err := r.Agents.At(how.MBus, how.CA, ""); err == nil && c.Address() == "" {
				t.Fatalf("an agent without an address: %+v", how)
			}
		}
		if a, ok := r.Folder().Applied(kept.Current); ok && a.VM == "" {
			t.Fatalf("accepted: %+v", a)
		}
	})
}
