//go:build unix

package monit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bootstrap/internal/monitfile"
	"bootstrap/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job is a folder with a ctl script that runs real processes.
type job struct {
	t    *testing.T
	dir  string
	name string
}

// daemon is the usual way of releases: the program starts a process in the background and
// writes its process id to a file. All jobs record every start and stop in one log.
const daemon = `
start) echo "$NAME start" >>../log; sleep 1000 & echo $! >pid; echo $! >>../pids ;;
stop) echo "$NAME stop" >>../log; kill $(cat pid); rm -f pid ;;
`

// newJob writes a ctl script with the given cases.
func newJob(t *testing.T, root, name, cases string) job {
	t.Helper()
	j := job{t, filepath.Join(root, name), name}
	if err := os.Mkdir(j.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j.write("ctl", "cd "+j.dir+"\nNAME="+name+"\ncase $1 in"+cases+"esac\n")
	return j
}

// newRoot returns a folder for jobs, whose processes are killed at the end.
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

// check returns the job's monit file with additional statements, parsed.
func (j job) check(more string) []monitfile.Check {
	j.t.Helper()
	checks, err := monitfile.Parse(j.name, fmt.Appendf(nil, "check process %s with pidfile %[2]s/pid\n"+
		"start program \"/bin/sh %[2]s/ctl start\" with timeout 60 seconds\nstop program \"/bin/sh %[2]s/ctl stop\" with timeout 60 seconds\ngroup vcap\n%[3]s\n", j.name, j.dir, more))
	if err != nil {
		j.t.Fatal(err)
	}
	return checks
}

func (j job) pid() int {
	pid, _ := strconv.Atoi(strings.TrimSpace(readFile(filepath.Join(j.dir, "pid"))))
	return pid
}

// kill kills the job's process without the supervisor.
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

// newSupervisor returns a supervisor with short cycles that logs its events in the test's
// log.
func newSupervisor(t *testing.T, checks []monitfile.Check) *Supervisor {
	t.Helper()
	s := New(t.Context(), Config{
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("it never comes to this: %s", what)
}

func one(s *Supervisor) Status { return s.Status()[0] }

func alive(pid int) bool { _, ok := process.Identify(pid); return ok }

func stop(t *testing.T, s *Supervisor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

// runsWithout waits until a process with another id than old runs.
func runsWithout(s *Supervisor, old int) func() bool {
	return func() bool {
		st := one(s)
		return st.State == StateRunning && st.PID != 0 && st.PID != old
	}
}

func isRunning(s *Supervisor) func() bool {
	return func() bool { return Summary(s.Status()) == StateRunning }
}

func TestLife(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	s := newSupervisor(t, j.check(""))
	if st := one(s); st.State != StateUnknown || st.Monitored || Summary(s.Status()) != StateFailing {
		t.Errorf("before start: %+v, %s", st, Summary(s.Status()))
	}
	s.Start()
	if got := Summary(s.Status()); got != StateStarting && got != StateRunning {
		t.Errorf("just started: %s", got)
	}
	eventually(t, "it runs", isRunning(s))
	// A process that has just been started has no memory yet.
	eventually(t, "it uses memory", func() bool { return one(s).MemKB > 0 })
	st := one(s)
	if st.PID != j.pid() || st.Uptime <= 0 || st.MemKB <= 0 || st.MemPct <= 0 || st.Restarts != 0 || !st.Monitored {
		t.Errorf("running: %+v", st)
	}

	old := j.kill()
	eventually(t, "a new process runs", runsWithout(s, old))
	if st := one(s); st.Restarts != 1 {
		t.Errorf("restarted: %+v", st)
	}

	pid := j.pid()
	stop(t, s)
	if alive(pid) || one(s).State != StateUnknown {
		t.Errorf("after stop: process lives: %v, %s, %+v", alive(pid), Summary(s.Status()), one(s))
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
	if Summary(s.Status()) != StateRunning {
		t.Error(Summary(s.Status()))
	}
	s.Start()
	s.Unmonitor()
	if Summary(s.Status()) != StateRunning || len(s.Status()) != 0 {
		t.Error(Summary(s.Status()), s.Status())
	}
	stop(t, s)
}

// A new supervisor adopts running processes.
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
	eventually(t, "it is restarted", func() bool { return Summary(second.Status()) == StateRunning && count(root, "web start") == 2 })
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
	if Summary(s.Status()) != StateFailing || one(s).Monitored {
		t.Errorf("%s %+v", Summary(s.Status()), one(s))
	}
	j.kill()
	eventually(t, "the process is gone", func() bool { return one(s).PID == 0 })
	// A second service that starts and stops shows that enough time has passed.
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
	var checks []monitfile.Check
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

// If a process dies, its dependents are stopped before it is started again.
func TestDependentsRestart(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	db := newJob(t, root, "db", daemon)
	web := newJob(t, root, "web", daemon)
	s := newSupervisor(t, append(web.check("depends on db"), db.check("")...))
	s.Start()
	eventually(t, "both run", isRunning(s))
	db.kill()
	eventually(t, "both were started again", func() bool { return count(root, "web start") == 2 && Summary(s.Status()) == StateRunning })
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
			// A damaged pid file of a running process does not lead to a second process.
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

// The process id in an old pid file belongs to another process.
func TestNumberUsedAgain(t *testing.T) {
	t.Parallel()
	if id, ok := process.Identify(os.Getpid()); !ok || id.Started().IsZero() {
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
