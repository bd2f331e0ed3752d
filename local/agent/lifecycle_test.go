//go:build linux || darwin

package agent

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func pidOf(m *testVM, job string) int {
	pid, _ := strconv.Atoi(strings.TrimSpace(m.read("sys", "run", job, job+".pid")))
	return pid
}

// TestLifecycle runs two jobs through their whole lifecycle.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	if got := m.state(); got.JobState != "running" || got.AgentID != "agent-1" {
		t.Errorf("a fresh VM has state %+v", got)
	}
	if got := m.must("apply", m.specOf(map[string]files{"web": daemon("web"), "db": daemon("db")})); got != `"applied"` {
		t.Errorf("apply: %s", got)
	}
	for name, want := range map[string]string{"id": "0", "az": "z1", "name": "group", "deployment": "dep"} {
		if got := m.read("instance", name); got != want {
			t.Errorf("instance/%s is %q, want %q", name, got, want)
		}
	}
	if got := m.must("run_script", "pre-start", map[string]any{}); got != "{}" {
		t.Errorf("run_script: %s", got)
	}
	if got := m.must("start"); got != `"started"` {
		t.Errorf("start: %s", got)
	}
	m.awaitState("running")
	healthy := func() bool { return m.read("instance", "health.json") == `{"state":"running"}` }
	m.eventually("health.json has the state", healthy)
	m.must("start") // the processes run
	m.eventually("health.json has the state again", healthy)
	names := m.state().Processes
	if len(names) != 2 || names[0].Name != "db" || names[1].Name != "web" {
		t.Errorf("processes: %+v", names)
	}
	web, db := pidOf(m, "web"), pidOf(m, "db")
	if !alive(web) || !alive(db) {
		t.Fatalf("processes %d and %d do not live", web, db)
	}
	if got := m.read("monit", "job", "0000_web.monitrc"); !strings.Contains(got, "check process web") {
		t.Errorf("the last job's monit file is not the first: %q", got)
	}
	if got := m.must("drain", "shutdown", map[string]any{}); got != "0" {
		t.Errorf("drain: %s", got)
	}
	if !alive(web) {
		t.Error("drain ended a process that has no drain script")
	}
	if value, exception := m.finish(m.begin("stop", 3)); string(value) != `"stopped"` {
		t.Errorf("stop: %s %s", value, exception)
	}
	if alive(web) || alive(db) {
		t.Error("stop with protocol 3 did not wait")
	}
	if got := m.state().JobState; got != "stopped" {
		t.Errorf("after stop the job state is %s", got)
	}
	if got := m.read("instance", "health.json"); got != `{"state":"stopped"}` {
		t.Errorf("health.json: %s", got)
	}
	for _, job := range []string{"web", "db"} {
		if got := m.read("sys", "log", job, "events"); got != "pre-start\nstart\nstop\n" {
			t.Errorf("what happened to %s: %q", job, got)
		}
	}
	m.must("start")
	m.awaitState("running")
	if _, err := os.Stat(m.vcap("monit", "stopped")); err == nil {
		t.Error("monit/stopped is left after start")
	}
	m.must("stop")
	m.eventually("a plain stop takes effect", func() bool { return pidOf(m, "web") == 0 && pidOf(m, "db") == 0 })
}
