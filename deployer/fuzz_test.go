package deployer

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
)

// FuzzKept damages what this machine keeps of a deployment: it counts as not
// kept, or is what it says.
func FuzzKept(f *testing.F) {
	f.Add(`{"vm": "vm-1", "mbus": "https://a:b@10.0.0.5:6868", "ca": ""}`, `{"manifest": "/m.yml", "name": "web", "mbus": "https://a:b@10.0.0.5:6868", "cpi": "/nowhere", "secrets": ["x"]}`, `{"vm": "vm-1", "spec": {"packages": {"a": {"blobstore_id": "b"}}}}`)
	f.Add(`{"vm": "vm-2", "old": {"vm": "vm-1", "mbus": "ftp://x", "ca": "no PEM"}, "coming": null}`, `{"name": "web", "mbus": ":"}`, `{"vm": "vm-1", "disk": {}}`)
	f.Add(`{"coming": {"mbus": "https://h", "coming": {}}, "agent_id": "a"}`, `{"name": 1}`, `[]`)
	f.Add(`null`, ``, `{`)
	f.Fuzz(func(t *testing.T, agentText, installation, record string) {
		r := &run{dir: t.TempDir(), root: report.New(func(report.Event) {})}
		r.opts.Secret = func(...string) {}
		for name, text := range map[string]string{"agent.json": agentText, "installation.json": installation, filepath.Join("applied", "current", "record.json"): record} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.recallKnown()
		if r.known.Name != "" {
			if err := r.findInstallation(t.Context()); err != nil {
				return
			}
			how := r.recallAgent("vm-1")
			if how.VM != "vm-1" {
				t.Fatalf("asked for vm-1, recalled %+v", how)
			}
			if c, err := r.agentAt(how.MBus, how.CA, ""); err == nil && c.Address() == "" {
				t.Fatalf("an agent without an address: %+v", how)
			}
		}
		if a, ok := r.folder().Applied(kept.Current); ok && a.VM == "" {
			t.Fatalf("accepted: %+v", a)
		}
	})
}
