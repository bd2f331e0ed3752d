//go:build unix

package monit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bootstrap/internal/monitfile"
)

// If the start program becomes the service itself, it does not end.
func TestStartProgramBecomesService(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", `
start) echo "$NAME start" >>../log; echo $$ >pid; echo $$ >>../pids; exec sleep 1000 ;;
stop) kill $(cat pid) ;;
`)
	s := newSupervisor(t, j.check(""))
	s.Start()
	eventually(t, "it runs", isRunning(s))
	old := j.kill()
	eventually(t, "it is restarted", runsWithout(s, old))
	eventually(t, "the dead child is collected", func() bool { return syscall.Kill(old, 0) != nil })
	stop(t, s)
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cases, argv string
		late        bool // it fails because its time is over
		want        string
	}{
		"status":  {cases: "\nstart) echo \"$NAME start\" >>../log; exit 7 ;;\n", want: "Execution failed: exit status 7"},
		"signal":  {cases: "\nstart) kill -9 $$ ;;\n", want: "Execution failed: ended by signal: killed"},
		"no file": {cases: daemon, argv: "/no/such/file start", want: "Execution failed: cannot run /no/such/file"},
		"no pid":  {cases: "\nstart) : ;;\n", late: true, want: "names no running process after 1s"},
		"hangs":   {cases: "\nstart) echo $$ >>../pids; echo \"$NAME start\" >>../log; exec sleep 1000 ;;\n", late: true, want: "and the start program has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			j := newJob(t, root, "web", tc.cases)
			checks := j.check("")
			if tc.late { // a busy machine may take longer to run a program
				checks[0].Start.Timeout = time.Second
			}
			if tc.argv != "" {
				checks[0].Start.Argv = strings.Fields(tc.argv)
			}
			s := newSupervisor(t, checks)
			s.Start()
			eventually(t, "it fails with "+tc.want, func() bool {
				return Summary(s.Status()) == StateFailing && strings.Contains(one(s).Message, tc.want)
			})
			if name == "hangs" {
				eventually(t, "it is tried again, after the first has ended", func() bool { return count(root, "web start") >= 2 })
				if first, _, _ := strings.Cut(readFile(filepath.Join(root, "pids")), "\n"); first != "" {
					pid, _ := strconv.Atoi(first)
					if alive(pid) {
						t.Error("two start programs at once")
					}
				}
			}
			stop(t, s)
			for _, word := range strings.Fields(readFile(filepath.Join(root, "pids"))) {
				if pid, _ := strconv.Atoi(word); alive(pid) {
					t.Errorf("start program %d is left after stop", pid)
				}
			}
		})
	}
}

// A service that dies repeatedly is restarted less and less often.
func TestBackOff(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", "\nstart) echo \"$NAME start\" >>../log; echo $$ >pid; exec sleep 0.3 ;;\n")
	s := newSupervisor(t, j.check(""))
	began := time.Now()
	s.Start()
	eventually(t, "five starts", func() bool { return count(root, "web start") >= 5 })
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("five starts in %v", took)
	}
	if st := one(s); st.Restarts < 3 {
		t.Errorf("%+v", st)
	}
	s.Unmonitor()
}

func TestStopDoesNotStop(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", strings.Replace(daemon, "kill $(cat pid); rm -f pid", "[ ! -e ok ] || kill $(cat pid)", 1))
	k := newJob(t, root, "good", daemon)
	checks := append(j.check(""), k.check("")...)
	checks[0].Stop.Timeout = 2 * time.Second
	s := newSupervisor(t, checks)
	s.Start()
	eventually(t, "they run", isRunning(s))
	err := s.Stop(t.Context())
	stopErr, ok := err.(*StopError)
	if !ok || len(stopErr.Services) != 1 || stopErr.Services[0].Name != "web" || stopErr.Cause != nil {
		t.Fatalf("got %v", err)
	}
	if want := fmt.Sprintf("cannot stop web (process %d): Execution failed: process %[1]d still runs", j.pid()); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
	if st := one(s); st.State != StateFailing || !st.Monitored || k.pid() != 0 {
		t.Errorf("%+v; good has process %d", st, k.pid())
	}
	j.write("ok", "")
	stop(t, s)
	if alive(j.pid()) || count(root, "web stop") != 2 {
		t.Errorf("log %v", lines(root))
	}
}

func TestStopDeadline(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", strings.Replace(daemon, "kill $(cat pid); rm -f pid", "while [ ! -e ok ]; do sleep 0.05; done; kill $(cat pid)", 1))
	s := newSupervisor(t, j.check(""))
	s.Start()
	eventually(t, "it runs", isRunning(s))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := s.Stop(ctx)
	stopErr, ok := err.(*StopError)
	if !ok || len(stopErr.Services) != 1 || stopErr.Cause != context.DeadlineExceeded {
		t.Fatalf("got %v", err)
	}
	j.write("ok", "")
	eventually(t, "it stops later", func() bool { return !one(s).Monitored && !alive(j.pid()) })
	stop(t, s)
}

func TestNoStopProgram(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	checks := j.check("")
	checks[0].Stop = monitfile.Program{}
	s := newSupervisor(t, checks)
	s.Start()
	eventually(t, "it runs", isRunning(s))
	pid := j.pid()
	stop(t, s)
	if alive(pid) {
		t.Error("it was left running")
	}
}

// A stop during a start leaves no process.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", "\nstart) echo $$ >>../pids; touch began; sleep 1000; echo late >>../log ;;\nstop) echo \"$NAME stop\" >>../log ;;\n")
	s := newSupervisor(t, j.check(""))
	s.Start()
	eventually(t, "the start program runs", func() bool { _, err := os.Stat(filepath.Join(j.dir, "began")); return err == nil })
	stop(t, s)
	if len(lines(root)) != 0 {
		t.Errorf("log: %v", lines(root))
	}
}

func TestPassive(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	s := newSupervisor(t, j.check("mode passive"))
	s.Start()
	eventually(t, "it runs", isRunning(s))
	j.kill()
	eventually(t, "it fails", func() bool { return Summary(s.Status()) == StateFailing && one(s).Message == "Does not exist" })
	stop(t, s)
	if count(root, "web start") != 1 {
		t.Errorf("log %v", lines(root))
	}
}

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"check process a with pidfile /a\ncheck process a with pidfile /b", `m:2: cannot use the name "a" again: m:1 has it`},
		{"check process a with pidfile /a\ndepends on b", `m:1: cannot find "b", on which "a" depends`},
		{"check process a with pidfile /a\ndepends on b\ncheck process b with pidfile /b\ndepends on a", "in a circle"},
		{"check process a with pidfile /a\ndepends on a", "in a circle"},
	} {
		checks, err := monitfile.Parse("m", []byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		s := newSupervisor(t, nil)
		if err := s.Load(checks); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v", tc.text, err)
		}
		if len(s.Status()) != 0 {
			t.Errorf("%q: loaded", tc.text)
		}
	}
}

// After a new Load, services of the new set keep running, and the others are forgotten.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	a, b := newJob(t, root, "a", daemon), newJob(t, root, "b", daemon)
	s := newSupervisor(t, append(a.check(""), b.check("")...))
	s.Start()
	eventually(t, "both run", isRunning(s))
	pid := a.pid()
	if err := s.Load(a.check("mode manual")); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); len(st) != 1 || st[0].PID != pid || Summary(s.Status()) != StateRunning {
		t.Errorf("%+v", st)
	}
	stop(t, s)
	if alive(pid) || !alive(b.pid()) || count(root, "a start") != 1 {
		t.Errorf("log %v", lines(root))
	}
}

// All methods are called at the same time while processes end: nothing hangs, and no
// process is left.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var checks []monitfile.Check
	var jobs []job
	for _, name := range []string{"a", "b", "c"} {
		j := newJob(t, root, name, daemon)
		jobs = append(jobs, j)
		on := ""
		if name == "b" {
			on = "depends on a"
		}
		checks = append(checks, j.check(on)...)
	}
	s := newSupervisor(t, checks)
	var wg sync.WaitGroup
	for _, call := range []func(){
		s.Start, s.Unmonitor, s.StopAsync, func() { s.Status() },
		func() { _ = s.Load(checks) },
		func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_ = s.Stop(ctx)
		},
		func() {
			for _, j := range jobs {
				if pid := j.pid(); pid > 1 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		},
	} {
		wg.Go(func() {
			for range 15 {
				call()
			}
		})
	}
	wg.Wait()
	s.Start()
	eventually(t, "all run in the end", isRunning(s))
	stop(t, s)
	for _, word := range strings.Fields(readFile(filepath.Join(root, "pids"))) {
		if pid, _ := strconv.Atoi(word); alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}
