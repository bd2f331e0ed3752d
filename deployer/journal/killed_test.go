//go:build unix

package journal

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/file"
)

// killed describes a run in another process, which is killed during a call.
type killed struct{ Dir, Method, Moment string }

// TestMain makes the call in TEST_JOURNAL_KILLED and kills this process during it, or
// runs the tests.
func TestMain(m *testing.M) {
	text := os.Getenv("TEST_JOURNAL_KILLED")
	if text == "" {
		os.Exit(m.Run())
	}
	var k killed
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	f, err := file.Open(ctx, filepath.Join(k.Dir, "state.json"), file.Options{Home: filepath.Join(k.Dir, "home")})
	if err != nil {
		panic(err)
	}
	client := cpi.New(cpi.Config{
		Path: filepath.Join(k.Dir, "cpi"), Env: []string{"PATH=" + os.Getenv("PATH")}, DirectorID: "director",
		Trace: func(method, moment string, _ func()) {
			if method == k.Method && moment == k.Moment {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		},
	})
	d := &deployment{dir: k.Dir, Journal: &Journal{
		State: f, Dir: filepath.Join(k.Dir, "home", f.Get().InstallationID), Report: report.New(func(report.Event) {}),
		CPI: func(context.Context) (*cpi.Client, error) { return client, nil },
	}}
	panic(d.call(ctx, k.Method)) // the process is killed before this line
}

// killedRun makes a call in another process, which is killed at a moment of the call.
func (d *deployment) killedRun(t *testing.T, method, moment string) {
	t.Helper()
	d.State.Close()
	text, err := json.Marshal(killed{d.dir, method, moment})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_JOURNAL_KILLED="+string(text))
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the run ended with %v: %s", err, out)
	}
}

// After a kill at any moment, the next run records the result of the call, for each
// method of state.Calls. It neither repeats the call nor asks the CPI or the agent.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	for _, row := range state.Calls() {
		for _, moment := range []string{"before", "running", "after"} {
			t.Run(row.Method+" "+moment, func(t *testing.T) {
				t.Parallel()
				want := samples()[row.Method]
				d := deployed(t, map[string]string{row.Method: `echo '{"result":` + want.gets + `}'`})
				d.killedRun(t, row.Method, moment)
				d = opened(t, d.dir, cpi.Config{})
				defer d.State.Close()
				before := d.State.Get()
				if len(before.Own.Intents) != 1 {
					t.Fatalf("announced %v", before.Own.Intents)
				}
				if err := d.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				st, asked := d.State.Get(), want.asks
				if moment == "before" {
					want.made, want.gone, asked = want.gone, "", ""
				}
				if want.made != "" && !recorded(st, want.made) || want.gone != "" && recorded(st, want.gone) || len(st.Own.Leftovers) > 0 {
					t.Errorf("recorded %q: %t, %q: %t; leftovers %v", want.made, recorded(st, want.made), want.gone, recorded(st, want.gone), st.Own.Leftovers)
				}
				if row.Effect == state.Changes && (st.Disk().Size == 20) != (moment != "before") {
					t.Errorf("the disk has %d MiB", st.Disk().Size)
				}
				if d.calls() != asked {
					t.Errorf("the CPI is asked %s, want %s", d.calls(), asked)
				}
				d.finished(t)
			})
		}
	}
}

// If the CPI of a killed run is still running, the next run reports that and waits.
// Interrupting the wait loses nothing.
func TestWaitsForCPIOfKilledRun(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": "until [ -e go ]; do sleep 0.01; done; " + result("disk-2")})
	d.killedRun(t, "create_disk", "running")
	d = opened(t, d.dir, cpi.Config{})
	defer d.State.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	d.Report = report.New(func(e report.Event) {
		d.events = append(d.events, e.Message)
		interrupt()
	})
	if err := d.Settle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while it works: %v", err)
	}
	if !strings.Contains(d.reported(), "create_disk, which the CPI is still running since ") || !strings.Contains(d.reported(), ": waiting for it") {
		t.Errorf("reported %s", d.reported())
	}
	if open := d.State.Get().Own.Intents; len(open) != 1 {
		t.Errorf("announced %v", open)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := d.State.Get(); !st.Owns("disk-2") || d.calls() != samples()["create_disk"].asks {
		t.Errorf("disks %v, calls %s", st.Disks, d.calls())
	}
	d.finished(t)
}

// If the CPI of a killed run is also killed, the result of its call is unknown.
func TestCPIOfKilledRunIsKilled(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"create_disk": "echo $$ >pid.new; mv pid.new pid; exec sleep 600"})
	d.killedRun(t, "create_disk", "running")
	pid := filepath.Join(d.dir, "pid")
	for {
		if _, err := os.Stat(pid); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) || wait.For(t.Context(), 5*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", "-c", `kill -KILL "$(cat "$0")"`, pid).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d = opened(t, d.dir, cpi.Config{})
	defer d.State.Close()
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := d.State.Get(); len(st.Disks) != 1 || !strings.Contains(whyLeft(st), "the CPI left no reply; look in the cloud for a disk of 20 MiB without tags") {
		t.Errorf("disks %v, leftovers %v", st.Disks, st.Own.Leftovers)
	}
	d.finished(t)
}
