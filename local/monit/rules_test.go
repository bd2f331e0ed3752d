//go:build unix

package monit

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/internal/process"
)

// A rule restarts the service after its condition was true for the given number of
// cycles.
func TestRuleConnection(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var fails atomic.Bool // until it is restarted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" || fails.Load() && count(root, "web start") == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t, root, "web", daemon)
	s := newSupervisor(t, j.check("if failed host 127.0.0.1 port "+port+" protocol http request \"/health\" with timeout 60 seconds for 3 cycles then restart"))
	s.Start()
	eventually(t, "it runs", isRunning(s))
	fails.Store(true)
	eventually(t, "it is restarted", func() bool { return count(root, "web start") == 2 })
	eventually(t, "it runs again", isRunning(s))
	if got := strings.Join(lines(root), ","); got != "web start,web stop,web start" {
		t.Errorf("log %s", got)
	}
	if st := one(s); st.Restarts != 1 {
		t.Errorf("%+v", st)
	}
	stop(t, s)
}

func TestRuleSocketAlert(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", daemon)
	dir, err := os.MkdirTemp("", "sock") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	s := newSupervisor(t, j.check("if failed unixsocket "+path+" with timeout 2 seconds for 2 cycles then alert"))
	s.Start()
	eventually(t, "the missing socket is noted", func() bool {
		return Summary(s.Status()) == StateFailing && strings.HasPrefix(one(s).Message, "Connection failed: ")
	})
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eventually(t, "it is well again", isRunning(s))
	if count(root, "web start") != 1 {
		t.Errorf("log %v", lines(root))
	}
	stop(t, s)
}

func TestRuleResources(t *testing.T) {
	t.Parallel()
	if len(process.Usages()) == 0 {
		t.Skip("what processes use cannot be told here")
	}
	// Two busy children that the pid file does not name.
	const busy = `
start) echo "$NAME start" >>../log
  sh -c 'sleep 1000 & echo $! >>../pids; sh -c "echo \$\$ >>../pids; while :; do :; done" & wait' & echo $! >pid; echo $! >>../pids ;;
stop) echo "$NAME stop" >>../log; kill $(cat pid) ;;
`
	for name, tc := range map[string]struct {
		rule, message string
	}{
		"total memory":  {"if totalmem > 64 Kb for 2 cycles then alert", "Resource limit matched: totalmemory is "},
		"memory":        {"if mem > 1 b then alert", "Resource limit matched: memory is "},
		"percent":       {"if totalmem < 100% then alert", "Resource limit matched: totalmemory is "},
		"children":      {"if children = 2 then alert", "Resource limit matched: children is 2"},
		"processor":     {"if totalcpu > 1% for 2 cycles then alert", "Resource limit matched: totalcpu is "},
		"own processor": {"if cpu < 50% then alert", "Resource limit matched: cpu is "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			s := newSupervisor(t, newJob(t, root, "web", busy).check(tc.rule+"\nif totalmem > 100 Gb then restart\nif children > 50 then restart"))
			s.Start()
			eventually(t, "the rule holds", func() bool { return strings.HasPrefix(one(s).Message, tc.message) })
			// Programs that begin later would outlive this test.
			eventually(t, "all have begun", func() bool { return strings.Count(readFile(filepath.Join(root, "pids")), "\n") == 3 })
			stop(t, s)
			if count(root, "web start") != 1 {
				t.Error("a rule that does not hold was obeyed")
			}
		})
	}
}

func TestRuleActions(t *testing.T) {
	t.Parallel()
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		root := newRoot(t)
		s := newSupervisor(t, newJob(t, root, "web", daemon).check(`if mem > 1 b for 2 cycles then exec "/bin/sh -c 'echo called >>`+root+`/log'"`))
		s.Start()
		eventually(t, "the program was called", func() bool { return count(root, "called") > 0 })
		stop(t, s)
	})
	t.Run("unmonitor", func(t *testing.T) {
		t.Parallel()
		root := newRoot(t)
		j := newJob(t, root, "web", daemon)
		s := newSupervisor(t, j.check("if mem > 1 b then unmonitor"))
		s.Start()
		eventually(t, "it is left alone", func() bool { return !one(s).Monitored })
		if !alive(j.pid()) {
			t.Error("the process is gone")
		}
		stop(t, s)
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		root := newRoot(t)
		j := newJob(t, root, "db", daemon)
		k := newJob(t, root, "web", daemon)
		s := newSupervisor(t, append(j.check("if mem > 1 b for 3 cycles then stop"), k.check("depends on db")...))
		s.Start()
		eventually(t, "both were started", func() bool { return count(root, "web start") == 1 })
		eventually(t, "both are down", func() bool { return count(root, "db stop") == 1 && one(s).PID == 0 })
		if got := strings.Join(lines(root), ","); got != "db start,web start,web stop,db stop" {
			t.Errorf("log %s", got)
		}
		stop(t, s)
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		root := newRoot(t)
		j := newJob(t, root, "web", daemon)
		s := newSupervisor(t, j.check("if does not exist then alert"))
		s.Start()
		eventually(t, "it runs", isRunning(s))
		j.kill()
		eventually(t, "it fails", func() bool { return one(s).Message == "Does not exist" })
		if err := os.Remove(filepath.Join(j.dir, "pid")); err != nil {
			t.Fatal(err)
		}
		s.Start() // an explicit start works
		eventually(t, "it runs again", isRunning(s))
		stop(t, s)
		if count(root, "web start") != 2 {
			t.Errorf("log %v", lines(root))
		}
	})
}

// After too many restarts in a short time, the service is not restarted any more.
func TestRuleRestarts(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	j := newJob(t, root, "web", "\nstart) echo \"$NAME start\" >>../log; exit 1 ;;\n")
	s := newSupervisor(t, j.check("if 3 restarts within 60 cycles then timeout"))
	s.Start()
	eventually(t, "it is given up", func() bool { return !one(s).Monitored })
	if n := count(root, "web start"); n != 3 || Summary(s.Status()) != StateFailing {
		t.Errorf("%d starts, %s", n, Summary(s.Status()))
	}
}

func TestFamily(t *testing.T) {
	t.Parallel()
	all := map[int]process.Usage{
		1: {Parent: 0, MemoryKB: 1, CPU: 1}, 2: {Parent: 1, MemoryKB: 10, CPU: 10}, 3: {Parent: 2, MemoryKB: 100, CPU: 100},
		4: {Parent: 5, MemoryKB: 1000}, 5: {Parent: 4, MemoryKB: 1000}, // a circle cannot exist, but must not hang
	}
	if sum, n := family(all, 1); sum.MemoryKB != 111 || sum.CPU != 111 || n != 2 {
		t.Errorf("%+v %d", sum, n)
	}
	if sum, n := family(all, 4); sum.MemoryKB != 2000 || n != 1 {
		t.Errorf("%+v %d", sum, n)
	}
	if sum, n := family(all, 99); sum.MemoryKB != 0 || n != 0 {
		t.Errorf("%+v %d", sum, n)
	}
}

// A process with a confusing name is identified correctly.
func TestIdentify(t *testing.T) {
	t.Parallel()
	id, ok := process.Identify(os.Getpid())
	if !ok || !id.Alive() {
		t.Fatal("this process is not found")
	}
	if at := id.Started(); !at.IsZero() && (time.Since(at) < -staleSlack || time.Since(at) > time.Hour) {
		t.Errorf("started %v", at)
	}
	if u, ok := process.Usages()[os.Getpid()]; ok && (u.MemoryKB < 1000 || u.Parent != os.Getppid()) {
		t.Errorf("%+v", u)
	}
	if _, ok := process.Identify(1 << 30); ok {
		t.Error("found a process that cannot be")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "pid")
	for text, want := range map[string]bool{strconv.Itoa(os.Getpid()): true, " " + strconv.Itoa(os.Getpid()) + " \n\n": true, strconv.Itoa(os.Getpid()) + "\nmore\n": true, "12x": false, "+": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := readPidFile(path); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}
