//go:build linux || darwin

package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"bootstrap/local/machine"
)

// noted returns a script that records its arguments.
func noted(name, rest string) string {
	return fmt.Sprintf("#!/bin/bash\n{ echo \"args=[$*]\"; env | grep -E '^(BOSH|VCAP|PATH|HOME|EXTRA)' | sort; } >> $VCAP_ROOT/sys/log/%s\n%s\n", name, rest)
}

func TestRunScript(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{
		"alpha": {"x:bin/pre-start": noted("alpha/seen", "echo out; echo err >&2"), "x:bin/failing": "#!/bin/sh\nexit 3\n"},
		"beta":  {"x:bin/pre-start": "#!/bin/sh\ntrue\n", "x:bin/failing": "#!/bin/sh\ntrue\n", "x:bin/no-shebang": "true\n"},
		"gamma": {"x:bin/failing": "#!/bin/sh\nkill -9 $$\n", "x:bin/sub/tool": "#!/bin/sh\n"},
	}))
	for range 2 {
		if got := m.must("run_script", "pre-start", map[string]any{"env": map[string]string{"EXTRA": "a b", "HOME": "/h"}}); got != "{}" {
			t.Errorf("run_script: %s", got)
		}
	}
	want := fmt.Sprintf("args=[]\nEXTRA=a b\nHOME=/h\nPATH=%s\nVCAP_ROOT=%s\n", machine.SearchPath(), m.vcap())
	if got := m.read("sys/log/alpha/seen"); got != want+want {
		t.Errorf("the script saw %q, want %q twice", got, want)
	}
	if out, err := m.read("sys/log/alpha/pre-start.stdout.log"), m.read("sys/log/alpha/pre-start.stderr.log"); out != "out\nout\n" || err != "err\nerr\n" {
		t.Errorf("logs: %q, %q", out, err)
	}
	for _, c := range []struct {
		name string
		want []string // the scripts that failed and passed, in any order
	}{
		{"nowhere", nil},
		{"sub/tool", nil},
		{"no-shebang", []string{"1 of 1 no-shebang scripts failed. Failed Jobs: beta."}},
		{"sub", []string{"1 of 1 sub scripts failed. Failed Jobs: gamma."}},
		{"failing", []string{
			"2 of 3 failing scripts failed. Failed Jobs: alpha, gamma. Successful Jobs: beta.",
			"2 of 3 failing scripts failed. Failed Jobs: gamma, alpha. Successful Jobs: beta.",
		}},
	} {
		got := m.try("run_script", c.name, map[string]any{})
		ok := got == "" && c.want == nil
		for _, want := range c.want {
			ok = ok || got == want
		}
		if !ok {
			t.Errorf("run_script %s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestScriptsRunAtTheSameTime: each script waits until the other one runs.
func TestScriptsRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	meet := func(mine, other string) files {
		return files{"x:bin/meet": fmt.Sprintf("#!/bin/bash\ncd $VCAP_ROOT/data\ntouch %s\nuntil [ -e %s ]; do sleep 0.05; done\n", mine, other)}
	}
	m.must("apply", m.specOf(map[string]files{"a": meet("a1", "b1"), "b": meet("b1", "a1")}))
	m.must("run_script", "meet", map[string]any{})
}

// TestScriptLeavesADaemon: the agent does not wait for a process that a script
// leaves running, even if it keeps the script's output open.
func TestScriptLeavesADaemon(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{"a": {
		"x:bin/pre-start": "#!/bin/sh\nsleep 1000 &\n",
		"x:bin/drain":     "#!/bin/sh\nsleep 1000 &\necho 0\n",
	}}))
	m.must("run_script", "pre-start", map[string]any{})
	m.must("drain", "shutdown", map[string]any{})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	one := m.pack("one", "p1", files{"f": ""})
	drain := noted("alpha/drain", `n=$VCAP_ROOT/data/alpha/calls; echo x >> $n
. $VCAP_ROOT/data/alpha/answer`)
	spec := m.specOf(map[string]files{"alpha": {"x:bin/drain": drain}, "beta": {"x:bin/drain": "#!/bin/sh\necho ' 0 '\n"}}, one)
	m.must("apply", spec)
	changed := m.specOf(nil, one, m.pack("two", "p2", files{"g": ""}))
	changed["configuration_hash"], changed["persistent_disk"] = "hash-2", 512

	seen := func(args, next string) string {
		text := "args=[" + args + "]\n"
		if next != "" {
			text += "BOSH_JOB_NEXT_STATE={\"persistent_disk\":" + next + "}\n"
		}
		return text + "BOSH_JOB_STATE={\"persistent_disk\":0}\n" + fmt.Sprintf("HOME=%s\nPATH=%s\nVCAP_ROOT=%s\n", m.vcap("data", "home"), machine.SearchPath(), m.vcap())
	}
	failed := "1 of 2 drain scripts failed. Failed Jobs: alpha. Successful Jobs: beta."
	for _, c := range []struct {
		name, answer string
		args         []any
		want, seen   string
	}{
		{"shutdown with {}", "echo 0", []any{"shutdown", map[string]any{}}, "", seen("job_shutdown hash_unchanged", "0")},
		{"shutdown alone", "echo 0", []any{"shutdown"}, "", seen("job_shutdown hash_unchanged", "")},
		{"update, same spec", "echo 0", []any{"update", spec}, "", seen("job_changed hash_unchanged", "0")},
		{"update, other spec", "echo 0", []any{"update", changed}, "", seen("job_changed hash_changed two", "512")},
		{"static", "echo 1", []any{"shutdown"}, "", seen("job_shutdown hash_unchanged", "")},
		{"dynamic", `[ $(wc -l < $n) -lt 2 ] && echo -1 || echo 0`, []any{"shutdown", map[string]any{}}, "",
			seen("job_shutdown hash_unchanged", "0") + seen("job_check_status hash_unchanged", "")},
		{"status counts for nothing", "echo 0; exit 3", []any{"shutdown"}, "", seen("job_shutdown hash_unchanged", "")},
		{"killed after its answer", "echo 0; kill -9 $$", []any{"shutdown"}, "", seen("job_shutdown hash_unchanged", "")},
		{"no number", "echo none", []any{"shutdown"}, failed, seen("job_shutdown hash_unchanged", "")},
		{"half a number", "echo 0.5", []any{"shutdown"}, failed, seen("job_shutdown hash_unchanged", "")},
		{"no output", "exit 3", []any{"shutdown"}, failed, seen("job_shutdown hash_unchanged", "")},
		{"status", "", []any{"status"}, "Unexpected call with drain type 'status'", ""},
		{"update without a spec", "", []any{"update"}, "Drain update requires new spec", ""},
		{"nonsense", "", []any{"nonsense"}, "cannot drain: the type must be shutdown or update, not 'nonsense'", ""},
	} {
		for file, text := range map[string]string{"data/alpha/answer": c.answer, "data/alpha/calls": "", "sys/log/alpha/drain": ""} {
			if err := os.WriteFile(m.vcap(file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.try("drain", c.args...); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := m.read("sys/log/alpha/drain"); got != c.seen {
			t.Errorf("%s: the script saw\n%s\nwant\n%s", c.name, got, c.seen)
		}
	}
}

func TestCancelDrain(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{"alpha": {
		"x:bin/drain": "#!/bin/bash\ntrap 'touch $VCAP_ROOT/data/alpha/term; exit' TERM\ntouch $VCAP_ROOT/data/alpha/runs\nsleep 1000 & wait\n",
	}}))
	id := m.begin("drain", 0, "shutdown", map[string]any{})
	m.eventually("drain runs", func() bool { return exists(m.vcap("data", "alpha", "runs")) })
	if got := m.must("cancel_task", id); got != `"canceled"` {
		t.Errorf("cancel_task: %s", got)
	}
	if value, exception := m.finish(id); string(value) != "0" {
		t.Errorf("the drain that was canceled: %s %q", value, exception)
	}
	if !exists(m.vcap("data", "alpha", "term")) {
		t.Error("the script was not asked to end")
	}
}

// TestDrainOutlivesSupervision: a process that a drain script ends is not
// started again, even if the agent restarts before the stop.
func TestDrainEndsProcesses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	job := daemon("web")
	job["x:bin/drain"] = "#!/bin/sh\n$VCAP_ROOT/jobs/web/bin/ctl stop\necho 0\n"
	m.must("apply", m.specOf(map[string]files{"web": job}))
	m.must("start")
	m.awaitState("running")
	m.must("drain", "shutdown", map[string]any{})
	m.endAgent(9)
	m.exec()
	m.await()
	if got := m.state(); got.JobState != "failing" || len(got.Processes) != 1 || got.Processes[0].State != "unknown" {
		t.Errorf("a drained VM is %+v", got)
	}
	if got := m.read("sys/log/web/events"); got != "start\nstop\n" {
		t.Errorf("what happened: %q", got)
	}
	m.must("start")
	m.awaitState("running")
}

func TestErrand(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{
		"alpha": {"x:bin/run": "#!/bin/sh\necho out; echo err >&2; exit 7\n"},
		"beta":  {"monit": ""},
		"slow":  {"x:bin/run": "#!/bin/bash\ntrap 'echo TERM; exit 9' TERM\ntouch $VCAP_ROOT/data/slow/runs\nsleep 1000 & wait\n"},
	}))
	if got := m.must("run_errand", "alpha"); got != `{"stdout":"out\n","stderr":"err\n","exit_code":7}` {
		t.Errorf("run_errand: %s", got)
	}
	for want, args := range map[string][]any{
		"At least one job template is required to run an errand": nil,
		"Could not find errand nosuch":                           {"nosuch"},
		"Running errand script: ":                                {"beta"},
	} {
		if got := m.try("run_errand", args...); !strings.HasPrefix(got, want) {
			t.Errorf("run_errand %v: %q", args, got)
		}
	}
	id := m.begin("run_errand", 0, "slow")
	m.eventually("the errand runs", func() bool { return exists(m.vcap("data", "slow", "runs")) })
	m.must("cancel_task", id)
	value, exception := m.finish(id)
	var r errandResult
	if err := json.Unmarshal(value, &r); err != nil || r.Stdout != "TERM\n" || r.ExitCode != 9 {
		t.Errorf("the errand that was canceled: %s %q", value, exception)
	}
}
