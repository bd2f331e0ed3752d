//go:build linux || darwin

package local

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRestarts ends agent and VM in every way and looks at the jobs.
func TestRestarts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	m.must("apply", m.specOf(map[string]files{"web": daemon("web")}))
	m.must("start")
	m.awaitState("running")
	first := pidOf(m, "web")

	m.endAgent(syscall.SIGKILL)
	if !alive(first) {
		t.Fatal("a killed agent takes its jobs along")
	}
	m.exec()
	m.await()
	m.awaitState("running")
	m.endAgent(syscall.SIGTERM)
	if !alive(first) {
		t.Fatal("an agent that ends takes its jobs along")
	}
	m.exec()
	m.await()
	m.awaitState("running")
	if pidOf(m, "web") != first || m.read("sys/log/web/events") != "start\n" {
		t.Errorf("the job was started again: pid %d, before %d", pidOf(m, "web"), first)
	}

	// Supervision goes on after the restart.
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.eventually("the process is started again", func() bool { return pidOf(m, "web") != first && alive(pidOf(m, "web")) })

	// The whole VM goes: its jobs come back, without hooks.
	m.awaitState("running")
	m.endAgent(syscall.SIGKILL)
	m.kill()
	m.exec()
	m.await()
	m.awaitState("running")
	if got := m.read("sys/log/web/events"); got != "start\nstart\nstart\n" {
		t.Errorf("what happened: %q", got)
	}

	// Stopped jobs stay stopped.
	m.finish(m.begin("stop", 3))
	m.endAgent(syscall.SIGKILL)
	m.exec()
	m.await()
	if got := m.state(); got.JobState != "stopped" || alive(pidOf(m, "web")) {
		t.Errorf("stopped jobs after a restart: %+v", got)
	}
	m.must("start")
	m.awaitState("running")
}

// TestStalePIDFile: after the machine started anew, numbers in old pid files
// mean nothing.
func TestStalePIDFile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	stale := m.vcap("sys", "run", "web", "web.pid")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.endAgent(syscall.SIGKILL)
	m.exec()
	m.await()
	if !exists(stale) {
		t.Error("a restart of the agent removed a pid file")
	}
	m.endAgent(syscall.SIGKILL)
	if err := os.WriteFile(m.vcap("bosh", "machine_boot"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.exec()
	m.await()
	if exists(stale) || !exists(filepath.Dir(stale)) {
		t.Error("after a start of the machine the pid file is there, or its folder is not")
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	m.must("apply", m.specOf(map[string]files{"web": daemon("web")}))
	m.must("start")
	m.awaitState("running")
	pid := pidOf(m, "web")
	if got := m.must("shutdown"); got != `""` {
		t.Errorf("shutdown: %s", got)
	}
	m.client.CloseIdleConnections()
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("the agent ended with: %v", err)
	}
	m.cmd = nil
	if alive(pid) {
		t.Error("a process of the VM is left")
	}
	m.exec()
	m.await()
	m.awaitState("running")
}

func TestOneAgentPerVM(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	err := Run(t.Context(), m.dir, m.log)
	if err == nil || !strings.Contains(err.Error(), "runs there since") {
		t.Errorf("a second agent: %v", err)
	}
	m.must("ping")
}

// TestEndsWithATask: an agent that is to end does not wait for a script, nor
// leave it behind.
func TestEndsWithATask(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	m.must("apply", m.specOf(map[string]files{"web": {
		"x:bin/pre-start": "#!/bin/bash\ntrap '' TERM\ntouch $VCAP_ROOT/data/web/runs\nsleep 1000\n",
	}}))
	m.begin("run_script", 0, "pre-start", map[string]any{})
	m.eventually("the script runs", func() bool { return exists(m.vcap("data", "web", "runs")) })
	m.endAgent(syscall.SIGTERM)
	v := &vm{dir: m.dir, root: m.vcap()}
	if left := v.members(); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestBadMonitFile: the agent says what is wrong, and stays reachable after a
// restart with it.
func TestBadMonitFile(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	bad := daemon("web")
	bad["monit"] = "check process web\n  with pidfile\n"
	m.must("apply", m.specOf(map[string]files{"web": bad}))
	r := m.reply("start", 0)
	if r.Exception == nil || !strings.HasPrefix(r.Exception.Message, "Action Failed start: Configuring jobs: Reloading jobSupervisor: ") ||
		!strings.Contains(r.Exception.Message, "monit/job/0000_web.monitrc:") {
		t.Errorf("start: %s %+v", r.Value, r.Exception)
	}
	m.halt()
	m.run()
	m.await()
	m.must("apply", m.specOf(map[string]files{"web": daemon("web")}))
	m.must("start")
	m.awaitState("running")
}
