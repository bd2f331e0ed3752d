//go:build unix

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
)

// A run plans all members, starts the canary and then the others in the order of the
// fleet file, and reports that in this order.
func TestDeploy(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abcd", "waves: [1, 2]", map[string]string{
		"plan b": `echo '` + nothingPlan + `'; echo '{"kind":"result"}'; exit 0`,
	})
	r, err := Deploy(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(s.reported(), "\n")
	if len(events) != 18 {
		t.Fatalf("%d events:\n%s", len(events), s.reported())
	}
	for _, line := range events[:4] { // members are planned at the same time
		if !strings.HasPrefix(line, "fleet_plan | ") {
			t.Errorf("planning: %s", line)
		}
	}
	want := `fleet
fleet_phase | canaries
member | a | started (canary)
member | a | step | create VM
member | a | done (canary)
fleet_phase | wave 1
member | c | started
member | c | step | create VM
member | c | done
fleet_phase | wave 2
member | d | started
member | d | step | create VM
member | d | done
fleet_end | done`
	if got := strings.Join(events[4:], "\n"); got != want {
		t.Errorf("reported\n%s\nwant\n%s", got, want)
	}
	if verdicts(r) != "a done, b unchanged, c done, d done" || s.calls("deploy") != "a c d" {
		t.Errorf("%s; deployed %s", verdicts(r), s.calls("deploy"))
	}
	if r.Result != Done || r.Ended == nil || r.Numbers.ToDo != 3 || r.Numbers.Canaries != 1 {
		t.Errorf("record %+v", r)
	}
	if m := r.Find("a"); !m.Canary || strings.Join(m.Changes, ", ") != "replace vm" || strings.Join(m.Planned, ", ") != "delete VM" || m.Attempts != 1 {
		t.Errorf("a: %+v", m)
	}
	if onDisk := s.record(t); verdicts(onDisk) != verdicts(r) || onDisk.Result != Done {
		t.Errorf("written: %s, %s", verdicts(onDisk), onDisk.Result)
	}
	if _, err := os.Lstat(lockPath(s.path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

// When a member's process begins, the record says that it is running; when its verdict
// is reported, the record contains it.
func TestRecordIsWrittenFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "max_failures: 1", map[string]string{"deploy b": `end 1 "no disk" "get one"`})
	opts := s.options(t)
	seen := map[string]string{}
	opts.Report = func(e Event) {
		if e.Kind == OfMember && e.Verdict != schedule.Waiting {
			seen[e.Member] = s.record(t).Find(e.Member).Verdict.String()
		}
	}
	if _, err := Deploy(t.Context(), opts); err == nil {
		t.Error("a member failed, and the run did not")
	}
	if seen["a"] != "done" || seen["b"] != "failed" || seen["c"] != "done" {
		t.Errorf("the record when a verdict is reported: %v", seen)
	}
	for name, want := range map[string]string{
		"a": "a running, b waiting, c waiting", "b": "a done, b running, c waiting", "c": "a done, b failed, c running",
	} {
		var r Record
		if err := json.Unmarshal([]byte(s.file("record-deploy-"+name)), &r); err != nil {
			t.Fatal(err)
		}
		m := r.Find(name)
		if verdicts(&r) != want || m.Started == nil || m.Attempts != 1 || m.Log != filepath.Join(r.Logs, name+".log") || r.Ended != nil {
			t.Errorf("when %s begins: %s, %+v", name, verdicts(&r), m)
		}
	}
}

// Each row has the results of members, and the effect of the rules.
func TestFailureRules(t *testing.T) {
	t.Parallel()
	const fails, busy, interrupted = `end 1 "no disk" "get one"`, `end 75 "it is locked"`, `end 130 "it was interrupted"`
	for name, c := range map[string]struct {
		update   string
		does     map[string]string
		verdicts string
		deploys  string
		result   Result
		reason   string
	}{
		"a canary fails": {"max_failures: 9", map[string]string{"deploy a": fails}, "a failed, b not started, c not started, d not started", "a", Failed, "a canary failed"},
		"one fails":      {"", map[string]string{"deploy b": fails}, "a done, b failed, c not started, d not started", "a b", Failed, "1 member failed"},
		"one may fail":   {"max_failures: 1", map[string]string{"deploy b": fails}, "a done, b failed, c done, d done", "a b c d", Failed, "1 member failed"},
		"two fail":       {"max_failures: 1", map[string]string{"deploy b": fails, "deploy c": fails}, "a done, b failed, c failed, d not started", "a b c", Failed, "2 members failed"},
		"no canary":      {"canaries: 0, max_failures: 1", map[string]string{"deploy a": fails}, "a failed, b done, c done, d done", "a b c d", Failed, "1 member failed"},
		"one cannot be planned": {"", map[string]string{"plan c": `echo '{"kind":"result","exit_code":1,"error":"bad","hint":"mend it"}'; exit 1`},
			"a not started, b not started, c failed, d not started", "", Failed, "1 member failed"},
		"busy, then free":         {"retry_busy: {wait: 1}", map[string]string{"deploy b": `[ -f again ] || { touch again; ` + busy + `; }`}, "a done, b done, c done, d done", "a b c d b", Done, ""},
		"busy":                    {"retry_busy: {rounds: 1, wait: 1}", map[string]string{"deploy b": busy}, "a done, b busy, c done, d done", "a b c d b", Busy, "other runs still lock some members"},
		"busy, not tried again":   {"retry_busy: {rounds: 0}", map[string]string{"deploy b": busy}, "a done, b busy, c done, d done", "a b c d", Busy, "other runs still lock some members"},
		"interrupted":             {"", map[string]string{"deploy b": interrupted}, "a done, b interrupted, c not started, d not started", "a b", Interrupted, "a member was interrupted"},
		"killed":                  {"", map[string]string{"deploy b": `[ -f again ] || { touch again; kill -KILL $$; }`}, "a done, b done, c done, d done", "a b b c d", Done, ""},
		"killed twice":            {"", map[string]string{"deploy b": `kill -KILL $$`}, "a done, b failed, c not started, d not started", "a b b", Failed, "1 member failed"},
		"ends without a result":   {"", map[string]string{"deploy b": `exit 3`}, "a done, b failed, c not started, d not started", "a b", Failed, "1 member failed"},
		"nothing to do after all": {"", map[string]string{"deploy b": "write '" + nothingPlan + "'; end 0"}, "a done, b unchanged, c done, d done", "a b c d", Done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "abcd", c.update, c.does)
			r, err := Deploy(t.Context(), s.options(t))
			var ended *EndedError
			if (err == nil) != (c.result == Done) || err != nil && (!errors.As(err, &ended) || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("error %v, want %s", err, c.reason)
			}
			if verdicts(r) != c.verdicts || r.Result != c.result || r.Reason != c.reason {
				t.Errorf("%s, %s: %s", verdicts(r), r.Result, r.Reason)
			}
			if s.calls("deploy") != c.deploys {
				t.Errorf("deployed %s, want %s", s.calls("deploy"), c.deploys)
			}
			if onDisk := s.record(t); verdicts(onDisk) != c.verdicts || onDisk.Ended == nil {
				t.Errorf("written: %s", verdicts(onDisk))
			}
		})
	}
}

// The record has the reason for a failure and what to do, in the words of the member's
// process.
func TestReasonOfFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does, reason, hint string
		code               int
	}{
		"an error":       {`end 4 "no disk" "get one"`, "no disk", "get one", 4},
		"with a page":    {`write '{"kind":"result","exit_code":4,"error":"no disk","explain":"disk-gone"}'; exit 4`, "no disk", `"bootstrap explain disk-gone" says more`, 4},
		"with both":      {`write '{"kind":"result","exit_code":4,"error":"no disk","hint":"get one","explain":"disk-gone"}'; exit 4`, "no disk", `get one; "bootstrap explain disk-gone" says more`, 4},
		"no result":      {`exit 3`, "its process ended without a result (exit code 3)", "", 3},
		"half a result":  {`printf '{"kind":"result","exit' >>"$events"; exit 3`, "its process ended without a result (exit code 3)", "", 3},
		"killed":         {`kill -KILL $$`, "its process ended without a result (exit code 137)", "", 137},
		"an end of 143":  {`exit 143`, "its process ended without a result (exit code 143)", "", 143},
		"other messages": {`write '{"kind":"result","exit_code":0}' 'oops' '{"kind":9}'; end 5 "no disk"`, "no disk", "", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "a", "", map[string]string{"deploy a": c.does})
			r, err := Deploy(t.Context(), s.options(t))
			if err == nil {
				t.Error("the run did not fail")
			}
			if m := r.Find("a"); m.Verdict != schedule.Failed || m.Reason != c.reason || m.Hint != c.hint || m.ExitCode != c.code {
				t.Errorf("%s (%d): %q, %q", m.Verdict, m.ExitCode, m.Reason, m.Hint)
			}
		})
	}
}

// A member that cannot be started has failed, and the others are not started.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "canaries: 0, max_in_flight: 2", nil)
	opts := s.options(t)
	opts.Confirm = func(_ context.Context, r *Record) error { return os.Remove(opts.Program.Self) }
	r, err := Deploy(t.Context(), opts)
	if err == nil || verdicts(r) != "a failed, b not started" || !strings.Contains(r.Find("a").Reason, "cannot start a") || s.calls("deploy") != "" {
		t.Errorf("%v: %s, %+v", err, verdicts(r), r.Find("a"))
	}
}

// A member gets the arguments, the environment and the variables of the fleet file, and
// no secret is on a command line.
func TestArgumentsOfMember(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", nil)
	s.write(t, "ops.yml", "[]\n")
	s.write(t, "fleet.yml", `
members:
- {manifest: a.yml, state: a-state.json, ops_files: ops.yml, vars: {password: hush-hush}, vars_store: a-vars.yml, packages_group: g}
- {manifest: b.yml}
update: {canary_watch_time: 1-2, update_watch_time: 3-4}
`)
	opts := s.options(t)
	opts.Program.Flags, opts.Program.Fleet = []string{"--yes"}, "fleet.yml -v x"
	if _, err := Deploy(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	logs := s.record(t).Logs
	member := strings.ReplaceAll("DIR/a.yml --bootstrap-yml= --state=DIR/a-state.json --ops-file=DIR/ops.yml --vars-store=DIR/a-vars.yml --packages-group=g --vars-file=- --yes", "DIR", s.dir)
	for file, want := range map[string]string{
		"arguments-plan-a":   "plan " + member + " --json",
		"arguments-deploy-a": "deploy " + member + " --events=" + logs + "/a.jsonl --update-watch-time=1-2",
		"arguments-deploy-b": "deploy " + s.dir + "/b.yml --bootstrap-yml= --yes --events=" + logs + "/b.jsonl --update-watch-time=3-4",
		"stdin-plan-a":       `{"password":"hush-hush"}`,
		"stdin-deploy-a":     `{"password":"hush-hush"}`,
		"stdin-deploy-b":     "",
	} {
		if got := s.file(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	environment := s.file("environment-deploy-a")
	if !strings.Contains(environment, "\nBOOTSTRAP_MEMBER=a=fleet.yml -v x") || !strings.Contains("\n"+environment, "\nGOMEMLIMIT=") || strings.Contains(environment, "hush-hush") {
		t.Errorf("environment: %s", environment)
	}
	for path, mode := range map[string]os.FileMode{logs: 0o700, filepath.Join(logs, "a.log"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if strings.Contains(s.file("fleet-run.json"), "hush-hush") {
		t.Error("the record has a secret")
	}
}

// A member that does not end in time is asked to end at its next safe step, and has
// failed even if it says that it was interrupted.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "timeout: 1", map[string]string{
		"deploy a": `trap 'end 130 "it was interrupted"' TERM; while :; do sleep 0.05; done`,
	})
	r, err := Deploy(t.Context(), s.options(t))
	if err == nil || verdicts(r) != "a failed, b not started" || r.Find("a").Reason != "it did not end within 1s: it was interrupted" {
		t.Errorf("%v: %s, %s", err, verdicts(r), r.Find("a").Reason)
	}
	if !strings.Contains(s.reported(), "fleet_notice | a | a has not ended within 1s: it is asked to end at its next safe step") {
		t.Errorf("reported %s", s.reported())
	}
}

// An interrupted run starts no member any more and waits for the running ones; the
// second signal asks these to end.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		s := newSite(t, "abc", "", map[string]string{
			"deploy a": `trap 'end 130 "it was interrupted"' TERM; until [ -f go ] || [ ! -d "$PWD" ]; do sleep 0.05; done`,
		})
		opts := s.options(t)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		urgent := make(chan struct{})
		opts.Urgent = urgent
		var again sync.Once
		opts.Report = func(e Event) {
			s.report(e)
			switch {
			case e.Step == "":
			default:
				interrupt()
			}
			if strings.HasPrefix(e.Message, "Interrupted: no member is started any more") {
				again.Do(func() {
					if twice {
						close(urgent)
					} else {
						s.write(t, "go", "")
					}
				})
			}
		}
		s.does(t, "deploy a", `write '`+changesPlan+`' '{"kind":"step","name":"create VM"}'; `+s.file("deploy-a"))
		r, err := Deploy(ctx, opts)
		want := "a done, b not started, c not started"
		if twice {
			want = "a interrupted, b not started, c not started"
		}
		if err == nil || verdicts(r) != want || r.Result != Interrupted || r.Reason != "it was interrupted" || s.calls("deploy") != "a" {
			t.Errorf("twice %t: %v: %s, %s: %s", twice, err, verdicts(r), r.Result, r.Reason)
		}
	}
}

// Another process pauses, resumes and aborts a run. Who asked is reported.
func TestAsk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "", map[string]string{
		"deploy a": `write '` + changesPlan + `' '{"kind":"step","name":"create VM"}'; until [ -f go ] || [ ! -d "$PWD" ]; do sleep 0.05; done; end 0`,
		"deploy b": `trap 'end 130 "it was interrupted"' TERM; while :; do sleep 0.05; done`,
	})
	opts := s.options(t)
	ask := func(w Wish) {
		if err := Ask(s.path, w, opts.By); err != nil {
			t.Error(err)
		}
	}
	opts.Report = func(e Event) {
		s.report(e)
		switch {
		case e.Member == "a" && e.Verdict == schedule.Waiting && e.Step != "":
			ask(Pause)
		case strings.HasPrefix(e.Message, "Paused by"):
			if !s.record(t).Paused {
				t.Error("the record does not say that the run is paused")
			}
			ask(Resume)
		case strings.HasPrefix(e.Message, "Resumed by"):
			s.write(t, "go", "")
		case e.Member == "b" && e.Status == "started":
			ask(Abort)
		}
	}
	r, err := Deploy(t.Context(), opts)
	if err == nil || verdicts(r) != "a done, b interrupted, c not started" || r.Result != Aborted || r.Reason != "it was aborted by anna@h1" || r.Paused {
		t.Errorf("%v: %s, %s: %s", err, verdicts(r), r.Result, r.Reason)
	}
	text := s.reported()
	for _, want := range []string{
		"fleet_notice | Paused by anna@h1: no member is started until \"bootstrap fleet resume " + s.path + "\"",
		"fleet_notice | Resumed by anna@h1",
		"fleet_notice | Aborted by anna@h1: the running members end at their next safe step",
	} {
		at := strings.Index(text, want)
		if at < 0 {
			t.Fatalf("not reported, or in another order: %s\n%s", want, s.reported())
		}
		text = text[at:]
	}
}

// If no run is running, a request is refused, with the command that continues. Abort ends
// a killed run.
func TestAskWithoutRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", nil)
	opts := s.options(t)
	refused := func(w Wish, text, next string) {
		t.Helper()
		var none *NotRunningError
		err := Ask(s.path, w, opts.By)
		if !errors.As(err, &none) || !strings.Contains(err.Error(), text) || !strings.Contains(none.Hint(), next) {
			t.Errorf("%s: %v", w, err)
		}
	}
	refused(Pause, "was ever started", `bootstrap fleet deploy `+s.path)
	r := newRecord(opts, opts.Fleet.Members)
	r.Members[0].Verdict = schedule.Running
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	refused(Pause, "was killed", `continues it, and "bootstrap fleet abort `)
	if err := Ask(s.path, Abort, opts.By); err != nil {
		t.Fatal(err)
	}
	if r := s.record(t); r.Result != Aborted || verdicts(r) != "a interrupted, b not started" || r.Ended == nil {
		t.Errorf("%s, %s", r.Result, verdicts(r))
	}
	refused(Abort, "the last one ended at", "starts one")
	if s.file("fleet-run.json.asked") != "" {
		t.Error("what was refused is kept for the next run")
	}
	if _, err := os.Lstat(lockPath(s.path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

// A run ignores a request that was made to an earlier run.
func TestOldWish(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "", nil)
	s.write(t, "fleet-run.json.asked", `{"wish":"abort","by":"x"}`)
	if r, err := Deploy(t.Context(), s.options(t)); err != nil || r.Result != Done {
		t.Errorf("%v, %s", err, verdicts(r))
	}
}

// A recreate replaces the VM also if its agent is silent, and a delete has no plan.
func TestOtherActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "", nil)
	s.deployedAs(t, "a", nil)
	s.deployedAs(t, "b", nil)
	opts := s.options(t)
	opts.Action = fleet.RecreateStrategy
	r, err := Deploy(t.Context(), opts)
	if err != nil || verdicts(r) != "a done, b done, c unchanged" || r.Find("c").Reason != "it is not deployed" || s.calls("recreate") != "a b" || s.calls("plan") == "" {
		t.Fatalf("%v: %s; recreated %s", err, verdicts(r), s.calls("recreate"))
	}
	if got := s.file("arguments-recreate-a"); !strings.HasPrefix(got, "recreate --fix "+s.dir+"/a.yml ") {
		t.Errorf("arguments: %s", got)
	}
	plans := s.calls("plan")
	opts.Action = fleet.DeleteStrategy
	s.does(t, "delete a", "write '"+nothingPlan+"'; end 0")
	s.does(t, "delete b", "rm b-state.json; kill -KILL $$")
	if r, err = Deploy(t.Context(), opts); err != nil || verdicts(r) != "a done, b done, c unchanged" || s.calls("delete") != "a b" {
		t.Errorf("%v: %s; deleted %s", err, verdicts(r), s.calls("delete"))
	}
	if s.calls("plan") != plans || strings.Join(r.Find("b").Changes, ", ") != "replace vm" && strings.Join(r.Find("b").Changes, ", ") != "delete vm, delete disk" {
		t.Errorf("planned %s; changes %v", s.calls("plan"), r.Find("b").Changes)
	}
	if got := s.file("arguments-delete-a"); !strings.HasPrefix(got, "delete --skip-if-missing "+s.dir+"/a.yml ") {
		t.Errorf("arguments: %s", got)
	}
}

// A member whose machine was lost is started again, but only a few times, because the
// member itself may be the cause. If the run is ending, the member is interrupted.
func TestLostMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "", nil)
	c, err := prepare(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	m := c.record.Members[0]
	lose := func(want schedule.Verdict, reason string) {
		t.Helper()
		now := time.Now()
		m.Attempts++
		m.Started = &now
		if err := c.verdict(0, Outcome{Verdict: schedule.Failed, Lost: true, Error: "h2 is silent"}, now); err != nil {
			t.Fatal(err)
		}
		if m.Verdict != want || m.Reason != reason || c.list[0].Verdict != want || s.record(t).Find("a").Verdict != want {
			t.Errorf("%s: %s, want %s: %s", m.Verdict, m.Reason, want, reason)
		}
	}
	for range maxLost - 1 {
		lose(schedule.Waiting, "h2 is silent")
		if !m.killed {
			t.Error("the next start does not wait for this one")
		}
	}
	if !strings.Contains(s.reported(), "fleet_notice | a | a is started again: h2 is silent") {
		t.Errorf("reported %s", s.reported())
	}
	lose(schedule.Failed, "h2 is silent, for the 5th time")
	m.lost, c.asked.Stop = 0, true
	lose(schedule.Interrupted, "h2 is silent")
}

// A start is not an attempt if no process began.
func TestNobodyStarted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "", nil)
	c, err := prepare(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m := c.record.Members[0]
	m.Attempts, m.Started = 1, &now
	if err := c.verdict(0, Outcome{Verdict: schedule.Waiting}, now); err != nil || m.Attempts != 0 || m.Started != nil || m.Verdict != schedule.Waiting {
		t.Errorf("%v: %+v", err, m)
	}
}

// The end of a log begins with a complete line and has not too many.
func TestLogEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.log")
	for text, want := range map[string]string{
		"": "", "one\ntwo\n": "one\ntwo",
		strings.Repeat("x\n", 100):                  strings.TrimSuffix(strings.Repeat("x\n", maxLogLines), "\n"),
		strings.Repeat("y", maxLogEnd) + "\nlast\n": "last",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := LogEnd(path); got != want {
			t.Errorf("%d bytes: %q", len(text), got)
		}
	}
	if got := LogEnd(filepath.Dir(path)) + LogEnd(path+".absent"); got != "" {
		t.Errorf("%q", got)
	}
}
