package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer"
)

// tracer follows a run for the tests that cut it: docs/reliability.md names
// the variables. A point's name is a line of the trace, as in
// "cpi create_vm before 1": the last word counts the points of that kind.
type tracer struct {
	mu   sync.Mutex
	seen map[string]int
	file *os.File // nil: the points are not written down

	killAt    string        // the point at which this process ends at once
	killAfter time.Duration // so long after it
	killCPI   bool          // and with it the CPI's process group, where one runs
	waitAt    string        // the point at which it waits
	waitFile  string        // while this file, which it makes then, is there
}

// trace is what the environment asks for; nil, as for everybody but the tests,
// if it asks for nothing.
func (c *console) trace() (func(deployer.Point), error) {
	t := &tracer{
		seen:     map[string]int{},
		killAt:   c.getenv("BOOTSTRAP_KILL_AT"),
		killCPI:  c.getenv("BOOTSTRAP_KILL_CPI") != "",
		waitAt:   c.getenv("BOOTSTRAP_WAIT_AT"),
		waitFile: c.getenv("BOOTSTRAP_WAIT_FILE"),
	}
	path := c.getenv("BOOTSTRAP_TRACE")
	if path == "" && t.killAt == "" && t.waitAt == "" {
		return nil, nil
	}
	var err error
	if after := c.getenv("BOOTSTRAP_KILL_AFTER"); after != "" {
		if t.killAfter, err = time.ParseDuration(after); err != nil {
			return nil, fmt.Errorf("cannot use BOOTSTRAP_KILL_AFTER: %w", err)
		}
	}
	if path != "" {
		// It ends with the process, which is meant to be killed.
		if t.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("cannot use BOOTSTRAP_TRACE: %w", err)
		}
	}
	return t.point, nil
}

func (t *tracer) point(p deployer.Point) {
	name := t.note(p)
	if name == t.waitAt {
		t.wait()
	}
	if name != t.killAt {
		return
	}
	<-time.After(t.killAfter)
	if t.killCPI {
		p.Kill()
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // nothing more is done while the signal is on its way
}

// note counts the point and writes it down, in the order of the counts.
func (t *tracer) note(p deployer.Point) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := strings.Join([]string{p.Kind, p.Method, p.Moment}, " ")
	t.seen[what]++
	name := fmt.Sprintf("%s %d", what, t.seen[what])
	if t.file != nil {
		// A test that reads the trace sees what is missing.
		_, _ = fmt.Fprintln(t.file, name)
	}
	return name
}

// wait tells by a file that the point is reached, and goes on when somebody
// has removed it.
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
