//go:build linux || darwin

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bootstrap/local/machine"
)

// TestRestarts ends the agent and the VM in every way and checks the jobs.
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

	// The agent supervises the processes again after the restart.
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.eventually("the process is started again", func() bool { return pidOf(m, "web") != first && alive(pidOf(m, "web")) })

	// After the end of the whole VM, its jobs start again without hooks.
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

// TestStalePIDFile: after a restart of the machine, process ids in old pid files are
// ignored.
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

// TestEndsWithATask: when the agent ends, it does not wait for a running script, and ends
// it.
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
	v := machine.New(m.dir)
	m.eventually("nothing is left", func() bool {
		left, err := v.Members(t.Context())
		return err == nil && len(left) == 0
	})
}

// TestBadMonitFile: the agent reports the mistake, does not say that the jobs run, and can be
// reached after a restart.
func TestBadMonitFile(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	bad := daemon("web")
	bad["monit"] = "chek process web with pidfile /x\n"
	m.must("apply", m.specOf(map[string]files{"web": bad}))
	r := m.reply("start", 0)
	if r.Exception == nil || !strings.HasPrefix(r.Exception.Message, "Action Failed start: Configuring jobs: Reloading jobSupervisor: ") ||
		!strings.Contains(r.Exception.Message, "monit/job/0000_web.monitrc:") {
		t.Errorf("start: %s %+v", r.Value, r.Exception)
	}
	if got := m.state().JobState; got != "unknown" {
		t.Errorf("the state is %s", got)
	}
	m.halt()
	m.run()
	m.await()
	if got := m.state().JobState; got != "unknown" {
		t.Errorf("after a restart of the agent, the state is %s", got)
	}
	if got := m.must("get_state", "full"); !strings.Contains(got, "no job is supervised: monit refuses a job's monit file: monit/job/0000_web.monitrc:1: ") {
		t.Errorf("the state does not say why: %s", got)
	}
	m.must("apply", m.specOf(map[string]files{"web": daemon("web")}))
	m.must("start")
	m.awaitState("running")
}

// TestFullDisk: writes fail with a reason, earlier files stay, and writes succeed again
// when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec("AGENT_FULL_DISK=1")
	m.await()
	m.must("apply", m.specOf(map[string]files{"web": {"monit": "", "config/v": "1"}}))
	status, text := m.do("PUT", "/blobs/00/big", strings.NewReader(strings.Repeat("x", 2<<20)))
	if status != 500 || !strings.Contains(text, "file too large") {
		t.Errorf("PUT of a blob: status %d %s", status, text)
	}
	if status, _ := m.do("GET", "/blobs/00/big", nil); status != 404 {
		t.Errorf("half a blob is served: status %d", status)
	}
	wide := m.specOf(map[string]files{"web": {"monit": "", "config/v": "2", "config/zeros": strings.Repeat("0", 2<<20)}})
	if got := m.try("apply", wide); !strings.HasPrefix(got, "Applying: Applying job web: Preparing job: ") || !strings.Contains(got, "file too large") {
		t.Errorf("apply: %q", got)
	}
	if got := m.read("jobs", "web", "config", "v"); got != "1" {
		t.Errorf("the job was replaced by half a one: %q", got)
	}
	source := archived(t, files{"packaging": "head -c 3000000 /dev/zero > $BOSH_INSTALL_TARGET/zeros"})
	compile := []any{m.put(source), sha1Of(source), "p", "v1", nil}
	if got := m.try("compile_package", compile...); !strings.Contains(got, "Command exited with ") {
		t.Errorf("compile_package: %q", got)
	}
	if got := listing(m, "bosh/tmp"); got != "" {
		t.Errorf("left in bosh/tmp: %s", got)
	}
	m.endAgent(syscall.SIGTERM)
	m.exec()
	m.await()
	m.must("apply", wide)
	m.must("compile_package", compile...)
}

// TestStopThatFails: if a process does not stop, the error names it.
func TestStopThatFails(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	stubborn := daemon("web")
	stubborn["monit"] = strings.Replace(stubborn["monit"], `ctl stop"`, `ctl ignore" with timeout 1 seconds`, 1)
	m.must("apply", m.specOf(map[string]files{"db": daemon("db"), "web": stubborn}))
	m.must("start")
	m.awaitState("running")
	_, exception := m.finish(m.begin("stop", 3))
	if exception != "Stopping Monitored Services: Stopping services '[web]' errored" {
		t.Errorf("stop: %q", exception)
	}
	if alive(pidOf(m, "db")) || !alive(pidOf(m, "web")) {
		t.Error("the wrong process stopped")
	}
	if got := m.state().JobState; got != "stopped" {
		t.Errorf("the job state is %s", got)
	}
}

// TestKilledInStop: the next agent stops the other processes.
func TestKilledInStop(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	slow := daemon("web")
	slow["x:bin/ctl"] = strings.Replace(slow["x:bin/ctl"], "stop)", "stop)\n  [ -e $VCAP_ROOT/data/web/quick ] || { touch $VCAP_ROOT/data/web/quick; sleep 1000; }", 1)
	m.must("apply", m.specOf(map[string]files{"web": slow}))
	m.must("start")
	m.awaitState("running")
	pid := pidOf(m, "web")
	m.begin("stop", 3)
	m.eventually("the stop program runs", func() bool { return exists(m.vcap("data", "web", "quick")) })
	m.endAgent(syscall.SIGKILL)
	m.exec()
	m.await()
	m.eventually("the process ends", func() bool { return !alive(pid) })
	if got := m.state().JobState; got != "stopped" {
		t.Errorf("the job state is %s", got)
	}
}
