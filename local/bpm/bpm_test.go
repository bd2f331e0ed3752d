//go:build linux || darwin

package bpm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	system "bootstrap/internal/process"
)

// TestMain also runs bpm in child processes, which limit themselves.
func TestMain(m *testing.M) {
	if root := os.Getenv("BPM_TEST_ROOT"); root != "" {
		os.Exit(Run(context.Background(), Call{Args: os.Args[1:], Root: root, Version: "v1", Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}

// testVM is the folder of a VM with the job web.
type testVM struct {
	t    *testing.T
	root string
}

// newVM makes a VM whose job web has this bpm.yml.
func newVM(t *testing.T, config string) testVM {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v := testVM{t, filepath.Join(dir, "vcap")}
	v.write("jobs/web/config/bpm.yml", config)
	t.Cleanup(func() {
		for _, name := range []string{"web", "worker"} {
			v.bpm("stop", "web", "-p", name)
		}
	})
	return v
}

func (v testVM) path(name string) string { return filepath.Join(v.root, name) }

func (v testVM) write(name, text string) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(v.path(name)), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(v.path(name), []byte(text), 0o755); err != nil {
		v.t.Fatal(err)
	}
}

func (v testVM) read(name string) string {
	text, _ := os.ReadFile(v.path(name))
	return string(text)
}

// bpm runs bpm and returns both outputs and the exit status.
func (v testVM) bpm(args ...string) (stdout, stderr string, status int) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "BPM_TEST_ROOT="+v.root)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		v.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a bpm command that must succeed.
func (v testVM) must(args ...string) string {
	v.t.Helper()
	out, errs, status := v.bpm(args...)
	if status != 0 {
		v.t.Fatalf("bpm %v: exit status %d: %s", args, status, errs)
	}
	return out
}

// pid returns the id of a running process.
func (v testVM) pid(args ...string) int {
	v.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(v.must(append([]string{"pid"}, args...)...)))
	if err != nil {
		v.t.Fatal(err)
	}
	return pid
}

func (v testVM) until(what string, is func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.t.Fatalf("waited in vain: %s", what)
		}
	}
}

const sleeper = "processes:\n- name: web\n  executable: sleep\n  args: [1000]\n"

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	v := newVM(t, sleeper)
	if _, errs, status := v.bpm("pid", "web"); status != 1 || errs != "Error: process is not running or could not be found\n" {
		t.Errorf("pid before the start: %d %q", status, errs)
	}
	v.write("sys/run/bpm/web/web.pid", "1") // the id of another process
	v.write("data/bpm/processes/web", strconv.Itoa(os.Getpid())+" of another boot")
	var starts sync.WaitGroup
	for range 3 {
		starts.Go(func() { v.bpm("start", "web") })
	}
	starts.Wait()
	pid := v.pid("web")
	if got := v.read("sys/run/bpm/web/web.pid"); got != strconv.Itoa(pid) {
		t.Errorf("the pid file has %q, want %d", got, pid)
	}
	if n := strings.Count(v.read("sys/log/web/bpm.log"), "msg=started"); n != 1 {
		t.Errorf("%d starts of three were done, want 1", n)
	}
	if err := os.Remove(v.path("sys/run/bpm/web/web.pid")); err != nil {
		t.Fatal(err)
	}
	v.must("start", "web")
	if got := v.read("sys/run/bpm/web/web.pid"); v.pid("web") != pid || got != strconv.Itoa(pid) {
		t.Errorf("without its pid file the process was started again, or the file is missing: %q", got)
	}
	if out := strings.Join(strings.Fields(v.must("list")), " "); out != "Name Pid Status web "+strconv.Itoa(pid)+" running" {
		t.Errorf("list: %q", out)
	}
	kill(pid)
	v.until("the end of the process", func() bool { return !system.Lives(pid) })
	if out := v.must("list"); out != "Name Pid Status\nweb  -   failed\n" {
		t.Errorf("list of a process that died: %q", out)
	}
	v.must("start", "web")
	pid = v.pid("web")
	v.must("stop", "web")
	v.must("stop", "web")
	if _, err := os.Stat(v.path("sys/run/bpm/web/web.pid")); system.Lives(pid) || err == nil {
		t.Errorf("after stop the process lives: %t; pid file: %v", system.Lives(pid), err)
	}
	if out := v.must("list"); out != "Name Pid Status\nweb  -   stopped\n" {
		t.Errorf("list of a stopped process: %q", out)
	}
}

// A process that leaves the session and group of its parent ends with it, as in a
// container.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	v := newVM(t, "processes:\n- name: web\n  executable: /var/vcap/jobs/web/bin/daemon\n")
	v.write("jobs/web/bin/daemon", "#!/bin/bash\nset -m\nsleep 1000 &\necho $! >$HOME/child\necho ready\nexec sleep 1000\n")
	for _, how := range []string{"stop", "start"} {
		v.must("start", "web")
		v.until("its child", func() bool { return strings.Count(v.read("sys/log/web/web.stdout.log"), "ready") > 0 })
		child, err := strconv.Atoi(strings.TrimSpace(v.read("data/web/child")))
		if err != nil || !system.Lives(child) {
			t.Fatalf("the child: %d, %v", child, err)
		}
		if how == "start" { // after the process has ended
			pid := v.pid("web")
			kill(pid)
			v.until("its end", func() bool { return !system.Lives(pid) })
		}
		v.must(how, "web")
		if system.Lives(child) {
			t.Errorf("%s leaves the child of the process before", how)
		}
		if err := os.Remove(v.path("sys/log/web/web.stdout.log")); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that ignores TERM gets QUIT; one that ignores both is killed.
func TestStopOfDeafProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for 17 seconds")
	}
	v := newVM(t, "processes:\n- name: web\n  executable: bash\n  args: [-c, \"trap '' TERM; echo ready; exec sleep 1000\"]\n"+
		"- name: worker\n  executable: bash\n  args: [-c, \"trap '' INT QUIT; echo ready; exec sleep 1000\"]\n  shutdown_signal: INT\n")
	var stops sync.WaitGroup
	for name, want := range map[string]string{"web": "signal=QUIT", "worker": "signal=KILL"} {
		stops.Go(func() {
			v.bpm("start", "web", "--process", name)
			v.until(name+" is ready", func() bool { return v.read("sys/log/web/"+name+".stdout.log") == "ready\n" })
			pid := v.pid("web", "-p", name)
			if _, errs, status := v.bpm("stop", "web", "-p", name); status != 0 || system.Lives(pid) {
				t.Errorf("%s: %d %s", name, status, errs)
			}
			if log := v.read("sys/log/web/bpm.log"); !strings.Contains(log, want) {
				t.Errorf("%s was not ended with %s:\n%s", name, want, log)
			}
		})
	}
	stops.Wait()
}

func TestRun(t *testing.T) {
	t.Parallel()
	v := newVM(t, "processes:\n- name: web\n  executable: sh\n  args: [-c, 'echo $GREETING $TMPDIR; echo wrong >&2; test -d $VOLUME; exit 7']\n"+
		"  env: {GREETING: hello, VOLUME: /var/vcap/data/volume}\n  limits: {memory: 1G, processes: 10, open_files: 100}\n")
	out, errs, status := v.bpm("run", "web", "-e", "GREETING=good day", "-v", "/var/vcap/data/volume:writable,allow_executions")
	if want := "good day " + v.path("data/web/tmp") + "\n"; status != 7 || out != want || v.read("sys/log/web/web.stdout.log") != want {
		t.Errorf("run: %d %q, log %q", status, out, v.read("sys/log/web/web.stdout.log"))
	}
	if !strings.HasPrefix(errs, "wrong\nError: cannot run web: it ended with exit status 7") || v.read("sys/log/web/web.stderr.log") != "wrong\n" {
		t.Errorf("run: %q", errs)
	}
	if info, err := os.Stat(v.path("data/volume")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the volume: %v %v", info, err)
	}
	if log := v.read("sys/log/web/bpm.log"); !strings.Contains(log, `settings="limits.memory, limits.processes"`) {
		t.Errorf("bpm.log does not say which limits are not held:\n%s", log)
	}
	for flag, want := range map[string]string{
		"-vfoo":                           "the path must be below /var/vcap",
		"-v/var/vcap/data/web":            "it is the folder of ephemeral_disk or persistent_disk",
		"-v/var/vcap/data/x/../../../etc": `the path must be written as "/var/etc"`,
		"-v/var/vcap/data/x:fast":         `unknown option "fast"`,
		"-ex":                             "--env x: write KEY=VALUE",
	} {
		if _, errs, status := v.bpm("run", "web", flag); status != 1 || !strings.Contains(errs, want) {
			t.Errorf("run web %s: %d %q, want %q", flag, status, errs, want)
		}
	}
}

func TestHook(t *testing.T) {
	t.Parallel()
	v := newVM(t, sleeper+"  hooks: {pre_start: /var/vcap/jobs/web/bin/setup}\n")
	v.write("jobs/web/bin/setup", "#!/bin/sh\necho nothing to set up >&2\nexit 3\n")
	if _, errs, status := v.bpm("start", "web"); status != 1 || !strings.Contains(errs, "hooks.pre_start (/var/vcap/jobs/web/bin/setup) failed, see ") || !strings.Contains(errs, "exit status 3") {
		t.Errorf("start: %d %q", status, errs)
	}
	if _, _, status := v.bpm("pid", "web"); status != 1 || v.read("sys/log/web/web.stderr.log") != "nothing to set up\n" {
		t.Errorf("the process runs, or its log misses the hook: %q", v.read("sys/log/web/web.stderr.log"))
	}
	v.write("jobs/web/bin/setup", "#!/bin/sh\necho set up >$TMPDIR/done\n")
	v.must("start", "web")
	if v.read("data/web/tmp/done") != "set up\n" {
		t.Error("the hook did not run")
	}
}

// If bpm.yml is a named pipe, bpm does not wait for a writer.
func TestConfigIsAPipe(t *testing.T) {
	t.Parallel()
	v := newVM(t, sleeper)
	file := v.path("jobs/web/config/bpm.yml")
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	want := "cannot read the job's configuration: read " + file + ": it is not a regular file"
	if _, errs, status := v.bpm("start", "web"); status != 1 || !strings.Contains(errs, want) {
		t.Errorf("start: %d %q, want %q", status, errs, want)
	}
}

// Every error names the file and, if there is one, the line.
func TestFaults(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"processes:\n- name: web\n  executable: [":                                         "bpm.yml: line 3:",
		"processes:\n- name: web\n  executable: /x\n  limits: {open_files: many}":          "bpm.yml: line 4: this must be a whole number that is not negative, not `many`",
		"processes:\n- executable: /x":                                                     "bpm.yml: line 2: the process has no name",
		"processes:\n- name: web\n":                                                        "bpm.yml: line 2: the process web has no executable",
		"processes:\n- name: ../web\n  executable: /x":                                     `line 2: "../web" cannot be the name of a process`,
		"processes:\n- name: web\n  executable: /x\n  shutdown_signal: HUP":                `must be TERM or INT, not "HUP"`,
		"processes:\n- name: web\n  executable: /x\n  limits: {memory: lots}":              `line 2: limits.memory of the process web: "lots" is not a size`,
		"processes:\n- name: web\n  executable: /x\n  additional_volumes:\n  - path: /etc": "line 5: the process web cannot have the volume /etc: the path must be below /var/vcap",
		"processes:\n- name: server\n  executable: /x":                                     `has no process "web": it has server`,
		"{}": "lists no processes",
		"processes:\n- name: web\n  executable: /does/not/exist": "its executable /does/not/exist does not exist",
		"processes:\n- name: web\n  executable: no-such-program": "its executable no-such-program does not exist",
		"processes:\n- name: web\n  executable: /tmp":            "cannot run its executable /tmp: is a directory",
		"processes:\n- name: web\n  executable: /etc/passwd":     "cannot run its executable /etc/passwd: permission denied",
		"processes: web":                          "line 1: this must be a list of processes, not `web`",
		"- processes":                             "line 1: this must be a map with a list of processes, not a list",
		"processes: [1]":                          "line 1: this must be a process or a volume, not `1`",
		"processes:\n- name: web\n  env: [A]":     "line 3: this must be a map of texts, not a list",
		"processes:\n- name: web\n  args: {a: b}": "line 3: this must be a list of texts, not a map",
		"processes:\n- name: web\n  executable: true\n  workdir: /does/not/exist":                  "its workdir /does/not/exist does not exist",
		"processes:\n- name: web\n  executable: true\n  persistent_disk: true\n  unknown: ignored": "persistent_disk: true needs a persistent disk, and the VM has none",
	} {
		v := newVM(t, config)
		_, errs, status := v.bpm("start", "web")
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s\n%d %q, want %q", config, status, errs, want)
		}
		if !strings.Contains(v.read("sys/log/web/bpm.log"), "msg=failed") {
			t.Error("bpm.log does not have the error, which monit does not show")
		}
	}
	v := newVM(t, sleeper)
	for args, want := range map[string]string{
		"start":         "bpm start needs a job",
		"start ../x":    `"../x" is not the name of a process`,
		"start other":   "there is no job other on this VM",
		"restart web":   `unknown command "restart"`,
		"start web -x":  "unknown shorthand flag",
		"trace web":     "bpm trace is not part of the embedded bpm",
		"shell web":     "process is not running or could not be found",
		"logs web -n 1": "logs not found",
		"pid web extra": "process is not running or could not be found",
	} {
		if _, errs, status := v.bpm(strings.Fields(args)...); status != 1 || !strings.Contains(errs, want) {
			t.Errorf("bpm %s: %d %q, want %q", args, status, errs, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"": 0, "512B": 512, "1K": 1 << 10, "743M": 743 << 20, "1.5G": 3 << 29, "2gb": 2 << 30, "1MiB": 1 << 20} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"1", "G", "-1G", "1X", "1GG", "0M"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// A soft limit that is larger than the hard one is lowered, with a message.
func TestTooManyOpenFiles(t *testing.T) {
	t.Parallel()
	v := newVM(t, "processes:\n- name: web\n  executable: sh\n  args: [-c, 'ulimit -Hn']\n  limits: {open_files: 999999999999}\n")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if out := v.must("run", "web"); strings.TrimSpace(out) == "999999999999" {
		t.Skip("no limit here")
	}
	if log := v.read("sys/log/web/bpm.log"); !strings.Contains(log, "limits.open_files") {
		t.Errorf("bpm.log does not say that the limit is not held:\n%s", log)
	}
}

func kill(pid int) {
	if id, runs := system.Identify(pid); runs {
		id.Kill()
	}
}
