//go:build unix

package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bootstrap/templates"
)

func TestDamage(t *testing.T) {
	t.Parallel()
	p := newPlan(t, chain()...)
	inst, _ := mustInstall(t, p)
	lib, _ := filepath.EvalSymlinks(filepath.Join(inst.PackagesDir, "lib"))
	entry := filepath.Dir(filepath.Dir(lib))
	tests := []struct {
		name   string
		damage func() error
		anew   bool
	}{
		{"none", func() error { return nil }, false},
		{"a file more", func() error { return os.WriteFile(filepath.Join(lib, "cache.pyc"), nil, 0o600) }, false},
		{"no file", func() error { return os.Remove(filepath.Join(lib, "text")) }, true},
		{"file cut", func() error { return os.Truncate(filepath.Join(lib, "text"), 1) }, true},
		{"other mode", func() error { return os.Chmod(filepath.Join(lib, "text"), 0o755) }, true},
		{"no record", func() error { return os.Remove(filepath.Join(entry, "done")) }, true},
		{"record cut", func() error { return os.Truncate(filepath.Join(entry, "done"), 40) }, true},
		{"record empty", func() error { return os.Truncate(filepath.Join(entry, "done"), 0) }, true},
		{"garbage", func() error { return os.WriteFile(filepath.Join(entry, "done"), []byte("\x00\xff"), 0o600) }, true},
		{"all gone", func() error { return os.RemoveAll(entry) }, true},
		{"a file in its place", func() error { return errors.Join(os.RemoveAll(entry), os.WriteFile(entry, nil, 0o600)) }, true},
		{"link elsewhere", func() error {
			return errors.Join(os.Remove(filepath.Join(inst.PackagesDir, "lib")), os.Symlink("/nowhere", filepath.Join(inst.PackagesDir, "lib")))
		}, false},
	}
	for _, test := range tests {
		if err := test.damage(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		_, s := mustInstall(t, p)
		if anew := slices.Contains(s.list, "Compiling package 'lib/fp-lib'"); anew != test.anew {
			t.Errorf("%s: stages %q", test.name, s.list)
		}
		if text, err := os.ReadFile(filepath.Join(inst.PackagesDir, "lib", "text")); string(text) != "echo from base\n" {
			t.Errorf("%s: %q, %v", test.name, text, err)
		}
	}
}

// child starts a process that installs p.
func child(t *testing.T, p plan) *exec.Cmd {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	put(t, file, string(data))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+file)
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestKilledAndRerun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The first run of the script writes half of a package and then hangs. If the first
	// run were not killed, it would damage the result of a second run.
	script := fmt.Sprintf(`echo half > $BOSH_INSTALL_TARGET/half
if [ ! -e %s/began ]; then
  touch %[1]s/began
  sleep 600 | cat > %[1]s/fifo
  echo spoilt > $BOSH_INSTALL_TARGET/text
  exit 0
fi
mv $BOSH_INSTALL_TARGET/half $BOSH_INSTALL_TARGET/text`, dir)
	p := newPlan(t, pack{name: "main", script: script})
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	run := child(t, p)
	f, err := os.Open(fifo) // waits until the script has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = run.Process.Kill()
	_ = run.Wait()
	// The pipe is closed when no process of the first run exists any more.
	if _, err := f.Read(make([]byte, 1)); err == nil {
		t.Error("the script goes on")
	}
	inst, s := mustInstall(t, p)
	if s.list[0] != "Compiling package 'main/fp-main'" {
		t.Errorf("stages %q", s.list)
	}
	if text, _ := os.ReadFile(filepath.Join(inst.PackagesDir, "main", "text")); string(text) != "half\n" {
		t.Errorf("got %q", text)
	}
	if _, err := os.Stat(filepath.Join(inst.PackagesDir, "main", "half")); err == nil {
		t.Error("what the first run wrote is left")
	}
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	p := newPlan(t, pack{name: "main", deps: []string{"base"}, script: "echo main >> " + runs}, pack{name: "base", script: "echo base >> " + runs + "; sleep 0.2"})
	var all []*exec.Cmd
	for i := range 4 {
		own := p
		own.Dir += fmt.Sprint(i / 2) // two processes for each installation
		all = append(all, child(t, own))
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stderr)
		}
	}
	if text, _ := os.ReadFile(runs); string(text) != "base\nmain\n" {
		t.Errorf("compiled %q", text)
	}
	for i := range 2 {
		if _, err := os.Stat(filepath.Join(p.Dir+fmt.Sprint(i), "jobs", "the_cpi", "bin", "cpi")); err != nil {
			t.Error(err)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlan(t, pack{name: "main", script: "echo up > " + fifo + "; sleep 600"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stopped by the test")
	go func() {
		_, _ = os.ReadFile(fifo) // waits until the script runs
		cancel(cause)
	}()
	engine := templates.Start(t.Context(), templates.Config{})
	defer engine.Close()
	if _, err := Install(ctx, p.config(engine)); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
