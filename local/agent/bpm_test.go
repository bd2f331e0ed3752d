//go:build linux || darwin

package agent

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// withBPM returns a job with one process for bpm.
func withBPM(name string) files {
	return files{
		"monit": "check process " + name + " with pidfile /var/vcap/sys/run/bpm/" + name + "/" + name + ".pid\n" +
			`  start program "/var/vcap/jobs/bpm/bin/bpm start ` + name + `"` + "\n" +
			`  stop program "/var/vcap/jobs/bpm/bin/bpm stop ` + name + `"` + "\n",
		"config/bpm.yml": "processes:\n- name: " + name + "\n  executable: sleep\n  args: [1000]\n",
	}
}

// The VM has bpm while a job needs it, and a job bpm of a release is replaced.
func TestBPM(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	links := func(want bool) {
		t.Helper()
		for _, name := range []string{"jobs/bpm", "packages/bpm"} {
			if _, err := os.Stat(m.vcap(name, "bin", "bpm")); (err == nil) != want {
				t.Errorf("%s: %v, want it: %t", name, err, want)
			}
		}
	}
	spec := m.specOf(map[string]files{"web": withBPM("web")})
	m.must("prepare", spec)
	m.must("apply", spec)
	links(true)
	m.must("start")
	m.awaitState("running")
	pid := m.read("sys", "run", "bpm", "web", "web.pid")

	// Each agent writes the path of its own program.
	script := m.read("jobs", "bpm", "bin", "bpm")
	m.endAgent(syscall.SIGTERM)
	for _, name := range []string{"jobs", "packages"} {
		if err := os.WriteFile(m.vcap(name, "bpm", "bin", "bpm"), []byte("#!/bin/sh\n"+bpmMark+"exec /moved plugin bpm\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.exec()
	m.await()
	m.awaitState("running")
	if m.read("jobs", "bpm", "bin", "bpm") != script || m.read("packages", "bpm", "bin", "bpm") != script {
		t.Error("bpm does not start the program of the agent")
	}
	if m.read("sys", "run", "bpm", "web", "web.pid") != pid {
		t.Error("the process was started again")
	}
	if _, failed := m.finish(m.begin("stop", 3)); failed != "" {
		t.Fatal(failed)
	}
	if _, err := os.Stat(m.vcap("sys", "run", "bpm", "web", "web.pid")); err == nil {
		t.Error("the process has a pid file after stop")
	}

	// A job bpm of a release does nothing but make bpm available.
	m.must("apply", m.specOf(map[string]files{"db": {"monit": ""}, "bpm": {
		"monit": "check process never with pidfile /x", "x:bin/bpm": "#!/bin/sh\nexit 1\n", "x:bin/pre-start": "#!/bin/sh\nexit 1\n",
	}}))
	links(true)
	m.must("run_script", "pre-start", map[string]any{})
	m.must("start")
	if state := m.must("get_state", "full"); strings.Contains(state, "never") || m.read("jobs", "bpm", "bin", "bpm") != script {
		t.Errorf("the job of the release is not replaced: %s", state)
	}

	m.must("apply", m.specOf(map[string]files{"db": {"monit": ""}}))
	links(false)
}
