package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/instance"
)

// tracer follows a run for the tests that interrupt it. The name of a point is a
// line of the trace, such as "cpi create_vm before 1": the last word counts the
// points of that kind.
type tracer struct {
	mu   sync.Mutex
	seen map[string]int
	file *os.File // nil: no trace is written

	killAt    string        // the point at which this process is killed
	killAfter time.Duration // the delay between the point and the kill
	killCPI   bool          // kill the running CPI's process group, too
	killed    string        // the file to which a killed program appends its arguments; empty: none
	waitAt    string        // the point at which it waits
	waitFile  string        // at point waitAt, the program creates this file and waits until the file is removed
}

// traceFrom returns the trace that the environment requests; nil: it requests none.
func traceFrom(getenv func(string) string) (func(instance.Point), error) {
	t := &tracer{
		seen:     map[string]int{},
		killAt:   getenv("BOOTSTRAP_KILL_AT"),
		killCPI:  getenv("BOOTSTRAP_KILL_CPI") != "",
		killed:   getenv("BOOTSTRAP_KILLED"),
		waitAt:   getenv("BOOTSTRAP_WAIT_AT"),
		waitFile: getenv("BOOTSTRAP_WAIT_FILE"),
	}
	path := getenv("BOOTSTRAP_TRACE")
	if path == "" && t.killAt == "" && t.waitAt == "" {
		return nil, nil
	}
	var err error
	if after := getenv("BOOTSTRAP_KILL_AFTER"); after != "" {
		if t.killAfter, err = time.ParseDuration(after); err != nil {
			return nil, fmt.Errorf("cannot use BOOTSTRAP_KILL_AFTER: %w", err)
		}
	}
	if path != "" {
		// Never closed: the process will be killed.
		if t.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("cannot use BOOTSTRAP_TRACE: %w", err)
		}
	}
	return t.point, nil
}

func (t *tracer) point(p instance.Point) {
	name := t.count(p)
	if name == t.waitAt {
		t.wait()
	}
	if name != t.killAt {
		return
	}
	<-time.After(t.killAfter)
	t.recordKill()
	if t.killCPI {
		p.Kill()
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // do nothing more until the process is killed
}

// recordKill appends the arguments of this program to the file of killed ones.
func (t *tracer) recordKill() {
	if t.killed == "" {
		return
	}
	// The test that reads the file notices a missing line.
	f, err := os.OpenFile(t.killed, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, strings.Join(os.Args, " "))
	_ = f.Close()
}

// count returns the name of the point and appends it to the trace.
func (t *tracer) count(p instance.Point) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := strings.Join([]string{p.Kind, p.Method, p.Moment}, " ")
	t.seen[what]++
	name := fmt.Sprintf("%s %d", what, t.seen[what])
	if t.file != nil {
		// The test that reads the trace notices a missing line.
		_, _ = fmt.Fprintln(t.file, name)
	}
	return name
}

// wait creates the file, which shows that the point is reached, and returns when the file
// was removed.
func (t *tracer) wait() {
	if os.WriteFile(t.waitFile, nil, 0o600) != nil {
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(t.waitFile); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
