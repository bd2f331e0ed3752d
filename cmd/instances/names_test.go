package instances

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// After a command about one instance, another run may send the DNS records to the others.
// If they are not sent for another reason, the person learns it.
func TestNamesNotSent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := `{"format": 1, "instances": [{"id": "aaaaaaaa", "group": "web", "state": "web-aaaaaaaa.json"}], "names": {}}`
	if err := os.WriteFile(filepath.Join(dir, record.FileName), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	var opts deployer.Options
	opts.Of = &instance.Member{Record: all, Instance: all.Instances[0]}
	opts.Report = func(e report.Event) { warnings = append(warnings, e.Message) }
	run := func() {
		t.Helper()
		do := SendingNames(nil, nil, func(context.Context, deployer.Options) error { return nil })
		if err := do(t.Context(), opts); err != nil {
			t.Error(err)
		}
	}
	lock, err := file.LockRecord(t.Context(), nil, record.LockPath(dir), file.Options{Holder: state.Holder{PID: os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	run()
	lock.Unlock(t.Context(), nil)
	if len(warnings) > 0 {
		t.Errorf("another run sends them: %q", warnings)
	}
	if err := os.Mkdir(record.LockPath(dir), 0o700); err != nil { // It cannot be locked.
		t.Fatal(err)
	}
	run()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "cannot send the DNS records to the other instances") {
		t.Errorf("the warnings are %q", warnings)
	}
}
