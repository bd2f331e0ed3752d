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

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job is a folder with a ctl script that runs real processes.
type job struct {
	t    *testing.T
	dir  string
	name string
}

// The usual way of a release: the daemon goes to the background, its pid into
// the file. Every start and stop is noted in the log that all jobs share.
const daemon = `
start) echo "$NAME start" >>../log; sleep 1000 & echo $! >pid; echo $! >>../pids ;;
stop) echo "$NAME stop" >>../log; kill $(cat pid); rm -f pid ;;
`

// newJob writes a ctl script whose cases are given.
func newJob(t *testing.T, root, name, cases string) job {
	t.Helper()
	j := job{t, filepath.Join(root, name), name}
	if err := os.Mkdir(j.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j.write("ctl", "cd "+j.dir+"\nNAME="+name+"\ncase $1 in"+cases+"esac\n")
	return j
}

// newRoot is a folder for jobs; at the end whatever runs in it is killed.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() {
		for _, word := range strings.Fields(readFile(filepath.Join(root, "pids"))) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return root
}

func readFile(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func (j job) write(name, text string) {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600); err != nil {
		j.t.Fatal(err)
	}
}

// check is the job's monit file, with more statements.
func (j job) check(more string) []Check {
	j.t.Helper()
	checks, err := Parse(j.name, fmt.Appendf(nil, "check process %s with pidfile %[2]s/pid\n"+
		"start program \"/bin/sh %[2]s/ctl start\" with timeout 5 seconds\nstop program \"/bin/sh %[2]s/ctl stop\" with timeout 5 seconds\ngroup vcap\n%[3]s\n", j.name, j.dir, more))
	if err != nil {
		j.t.Fatal(err)
	}
	return checks
}

func (j job) pid() int {
	pid, _ := strconv.Atoi(strings.TrimSpace(readFile(filepath.Join(j.dir, "pid"))))
	return pid
}

// kill ends the job's process behind the supervisor's back.
func (j job) kill() int {
	j.t.Helper()
	pid := j.pid()
	if pid <= 1 {
		j.t.Fatalf("%s has no process to kill", j.name)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		j.t.Fatal(err)
	}
	return pid
}

func lines(root string) []string {
	return strings.FieldsFunc(readFile(filepath.Join(root, "log")), func(r rune) bool { return r == '\n' })
}

func count(root, line string) (n int) {
	for _, l := range lines(root) {
		if l == line {
			n++
		}
	}
	return n
}

// newSupervisor has short cycles and says what happens in the test's log.
func newSupervisor(t *testing.T, checks []Check) *Supervisor {
	t.Helper()
	s := New(Config{
		Report:  func(e Event) { t.Logf("%s %s: %s", e.Time.Format("05.000"), e.Service, e.Message) },
		Cycle:   100 * time.Millisecond,
		Settle:  50 * time.Millisecond,
		BackOff: 100 * time.Millisecond, RuleCycle: 100 * time.Millisecond,
	})
	t.Cleanup(s.Close)
	if err := s.Load(checks); err != nil {
		t.Fatal(err)
	}
	return s
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("it never comes to this: %s", what)
}

func one(s *Supervisor) Status { return s.Status()[0] }

func alive(pid int) bool { _, ok := identify(pid); return ok }

func stop(t *testing.T, s *Supervisor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func isRunning(s *Supervisor) func() bool { return func() bool { return s.State() == StateRunning } }

func TestLife(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	s := newSupervisor(t, j.check(""))
	if st := one(s); st.State != StateUnknown || st.Monitored || s.State() != StateFailing {
		t.Errorf("before start: %+v, %s", st, s.State())
	}
	s.Start()
	if got := s.State(); got != StateStarting {
		t.Errorf("just started: %s", got)
	}
	eventually(t, "it runs", isRunning(s))
	st := one(s)
	if st.PID != j.pid() || st.Uptime <= 0 || st.MemKB <= 0 || st.MemPct <= 0 || st.Restarts != 0 || !st.Monitored {
		t.Errorf("running: %+v", st)
	}

	old := j.kill()
	eventually(t, "a new process runs", func() bool { return s.State() == StateRunning && one(s).PID != old && one(s).PID != 0 })
	if st := one(s); st.Restarts != 1 {
		t.Errorf("restarted: %+v", st)
	}

	pid := j.pid()
	stop(t, s)
	if alive(pid) || s.State() != StateStopped || one(s).State != StateUnknown {
		t.Errorf("after stop: process lives: %v, %s, %+v", alive(pid), s.State(), one(s))
	}
	s.Start()
	eventually(t, "it runs again", isRunning(s))
	stop(t, s)
	if got := strings.Join(lines(root), ","); got != "web start,web start,web stop,web start,web stop" {
		t.Errorf("log: %s", got)
	}
}

func TestNoServicesRun(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, nil)
	if s.State() != StateRunning {
		t.Error(s.State())
	}
	s.Start()
	s.Unmonitor()
	if s.State() != StateRunning || len(s.Status()) != 0 {
		t.Error(s.State(), s.Status())
	}
	stop(t, s)
	if s.State() != StateStopped {
		t.Error(s.State())
	}
}

// A supervisor that comes anew takes over what runs.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	first := newSupervisor(t, j.check(""))
	first.Start()
	eventually(t, "it runs", isRunning(first))
	pid := j.pid()
	first.Close()
	if !alive(pid) {
		t.Fatal("the process went with its supervisor")
	}

	second := newSupervisor(t, j.check(""))
	second.Start()
	eventually(t, "it is taken over", isRunning(second))
	if one(second).PID != pid || count(root, "web start") != 1 {
		t.Errorf("want process %d, got %+v, log %v", pid, one(second), lines(root))
	}
	j.kill()
	eventually(t, "it is restarted", func() bool { return second.State() == StateRunning && count(root, "web start") == 2 })
	stop(t, second)
}

func TestUnmonitorLeavesAlone(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	s := newSupervisor(t, j.check(""))
	s.Start()
	eventually(t, "it runs", isRunning(s))
	s.Unmonitor()
	if s.State() != StateFailing || one(s).Monitored {
		t.Errorf("%s %+v", s.State(), one(s))
	}
	j.kill()
	eventually(t, "the process is gone", func() bool { return one(s).PID == 0 })
	// A second service that goes through its life shows that time has passed.
	k := newJob(t, root, "other", daemon)
	other := newSupervisor(t, k.check(""))
	other.Start()
	eventually(t, "the other runs", isRunning(other))
	stop(t, other)
	if count(root, "web start") != 1 {
		t.Error("an unmonitored service was started")
	}
	stop(t, s)
}

func TestOrder(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var checks []Check
	for name, on := range map[string]string{"c": "depends on b", "a": "", "b": "depends on a"} {
		checks = append(checks, newJob(t, root, name, daemon).check(on)...)
	}
	s := newSupervisor(t, checks)
	s.Start()
	eventually(t, "all run", isRunning(s))
	stop(t, s)
	if got := strings.Join(lines(root), ","); got != "a start,b start,c start,c stop,b stop,a stop" {
		t.Errorf("order: %s", got)
	}
}

// What depends on a process that died goes down before it comes up again.
func TestDependentsRestart(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	db := newJob(t, root, "db", daemon)
	web := newJob(t, root, "web", daemon)
	s := newSupervisor(t, append(web.check("depends on db"), db.check("")...))
	s.Start()
	eventually(t, "both run", isRunning(s))
	db.kill()
	eventually(t, "both were started again", func() bool { return count(root, "web start") == 2 && s.State() == StateRunning })
	if got := strings.Join(lines(root), ","); got != "db start,web start,web stop,db start,web start" {
		t.Errorf("order: %s", got)
	}
	stop(t, s)
}

func TestPidFileGarbage(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"text":      func(p string) error { return os.WriteFile(p, []byte("none\n"), 0o600) },
		"empty":     func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"zero":      func(p string) error { return os.WriteFile(p, []byte("0"), 0o600) },
		"negative":  func(p string) error { return os.WriteFile(p, []byte("-1"), 0o600) },
		"huge":      func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("9", 40)), 0o600) },
		"dead":      func(p string) error { return os.WriteFile(p, []byte("1073741823"), 0o600) },
		"binary":    func(p string) error { return os.WriteFile(p, []byte("\x00\xff12\n"), 0o600) },
		"pipe":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"dangling":  func(p string) error { return os.Symlink("nowhere", p) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			j := newJob(t, root, "web", strings.Replace(daemon, "start)", "start) rm -rf pid;", 1))
			path := filepath.Join(j.dir, "pid")
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			s := newSupervisor(t, j.check(""))
			s.Start()
			eventually(t, "it runs all the same", isRunning(s))
			pid := j.pid()
			// Spoiled while the process runs, it is no reason to start a second.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.poke()
				if st := one(s); st.PID != pid || st.State != StateRunning {
					t.Errorf("spoiled: %+v", st)
				}
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			j.write("pid", strconv.Itoa(pid))
			stop(t, s)
			if count(root, "web start") != 1 {
				t.Errorf("log: %v", lines(root))
			}
		})
	}
}

// The number in an old pid file belongs to somebody else by now.
func TestNumberUsedAgain(t *testing.T) {
	t.Parallel()
	if id, ok := identify(os.Getpid()); !ok || id.started().IsZero() {
		t.Skip("the start of a process cannot be told here")
	}
	root := newRoot(t)
	foreign := newJob(t, root, "foreign", daemon)
	fs := newSupervisor(t, foreign.check(""))
	fs.Start()
	eventually(t, "the foreign process runs", isRunning(fs))
	fs.Close()

	j := newJob(t, root, "web", daemon)
	j.write("pid", strconv.Itoa(foreign.pid()))
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(j.dir, "pid"), old, old); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(t, j.check(""))
	if st := one(s); st.PID != 0 {
		t.Errorf("took the foreign process: %+v", st)
	}
	s.Start()
	eventually(t, "it runs", isRunning(s))
	if j.pid() == foreign.pid() || !alive(foreign.pid()) {
		t.Error("the foreign process was taken or harmed")
	}
	stop(t, s)
	if !alive(foreign.pid()) {
		t.Error("the foreign process was stopped")
	}
}

// The start program can become the service: it never returns.
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
	eventually(t, "it is restarted", func() bool { return s.State() == StateRunning && one(s).PID != old })
	if err := syscall.Kill(old, 0); err == nil {
		t.Error("the dead child was not collected")
	}
	stop(t, s)
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ cases, argv, want string }{
		"status":  {"\nstart) echo \"$NAME start\" >>../log; exit 7 ;;\n", "", "Execution failed: exit status 7"},
		"signal":  {"\nstart) kill -9 $$ ;;\n", "", "Execution failed: ended by signal: killed"},
		"no file": {daemon, "/no/such/file start", "Execution failed: cannot run /no/such/file"},
		"no pid":  {"\nstart) : ;;\n", "", "names no running process after 1s"},
		"hangs":   {"\nstart) echo $$ >>../pids; echo \"$NAME start\" >>../log; exec sleep 1000 ;;\n", "", "and the start program has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			j := newJob(t, root, "web", tc.cases)
			checks := j.check("")
			checks[0].Start.Timeout = time.Second
			if tc.argv != "" {
				checks[0].Start.Argv = strings.Fields(tc.argv)
			}
			s := newSupervisor(t, checks)
			s.Start()
			eventually(t, "it fails with "+tc.want, func() bool {
				return s.State() == StateFailing && strings.Contains(one(s).Message, tc.want)
			})
			if name == "hangs" {
				eventually(t, "it is tried again, after the first has ended", func() bool { return count(root, "web start") == 2 })
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

// A service that dies again and again is tried more and more seldom.
func TestBackOff(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", "\nstart) echo \"$NAME start\" >>../log; echo $$ >pid; exec sleep 0.05 ;;\n")
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
	checks[0].Stop.Timeout = 300 * time.Millisecond
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
	checks[0].Stop = Program{}
	s := newSupervisor(t, checks)
	s.Start()
	eventually(t, "it runs", isRunning(s))
	pid := j.pid()
	stop(t, s)
	if alive(pid) {
		t.Error("it was left running")
	}
}

// Stop in the middle of a start leaves nothing behind.
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
	eventually(t, "it fails", func() bool { return s.State() == StateFailing && one(s).Message == "Does not exist" })
	stop(t, s)
	if count(root, "web start") != 1 {
		t.Errorf("log %v", lines(root))
	}
}

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	const head = "check process %s with pidfile /run/x\n"
	for _, tc := range []struct{ text, want string }{
		{"check process a with pidfile /a\ncheck process a with pidfile /b", `m:2: cannot use the name "a" again: m:1 has it`},
		{"check process a with pidfile /a\ndepends on b", `m:1: cannot find "b", on which "a" depends`},
		{"check process a with pidfile /a\ndepends on b\ncheck process b with pidfile /b\ndepends on a", "in a circle"},
		{"check process a with pidfile /a\ndepends on a", "in a circle"},
	} {
		checks, err := Parse("m", []byte(tc.text))
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

// A new set keeps what stays and forgets what goes.
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
	if st := s.Status(); len(st) != 1 || st[0].PID != pid || s.State() != StateRunning {
		t.Errorf("%+v", st)
	}
	stop(t, s)
	if alive(pid) || !alive(b.pid()) || count(root, "a start") != 1 {
		t.Errorf("log %v", lines(root))
	}
}

// All calls at once, with processes dying: nothing hangs, nothing is left.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var checks []Check
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
		s.Start, s.Unmonitor, s.StopAsync, func() { s.Status() }, func() { s.State() },
		func() { _ = s.Load(checks) },
		func() { ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond); defer cancel(); _ = s.Stop(ctx) },
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
