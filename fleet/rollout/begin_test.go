//go:build unix

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/process"
	"bootstrap/state"
	"bootstrap/state/file"
)

// The verdict of a member before it starts is that of its plan.
func TestPreview(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abcdef", "", map[string]string{
		"plan b": `echo '` + nothingPlan + `'; echo '{"kind":"result","exit_code":0}'; exit 0`,
		"plan c": `echo '{"kind":"result","exit_code":4,"error":"bad","hint":"mend it"}'; exit 4`,
		"plan d": `echo why >&2; exit 3`,
		"plan e": `echo '` + nothingPlan + `'; echo '{"kind":"result","exit_code":0}'; exit 0`,
	})
	s.write(t, "fleet.yml", s.file("fleet.yml")+"\n")
	s.deployedAs(t, "e", func(st *state.State) { st.Own.Stopped = true })
	text := strings.Replace(s.file("fleet.yml"), "f.yml", "f.yml\n  blocked: {why: it is Friday, by: anna}", 1)
	s.write(t, "fleet.yml", text)
	r, err := Preview(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "a waiting, b unchanged, c failed, d failed, e unchanged, f blocked"; verdicts(r) != want {
		t.Errorf("%s, want %s", verdicts(r), want)
	}
	for name, want := range map[string]string{"a": "", "b": "", "c": "bad", "d": "its process ended without a result: exit status 3 why", "e": "it was stopped with bootstrap stop", "f": "it is Friday (anna)"} {
		if m := r.Find(name); m.Reason != want {
			t.Errorf("%s: %s, want %s", name, m.Reason, want)
		}
	}
	if m := r.Find("c"); m.Hint != "mend it" || m.ExitCode != 4 {
		t.Errorf("c: %+v", m)
	}
	if r.Numbers.Members != 6 || r.Numbers.ToDo != 1 || r.Numbers.Canaries != 1 || r.Numbers.MaxInFlight != 1 {
		t.Errorf("numbers %+v", r.Numbers)
	}
	if strings.Contains(s.calls("plan"), "f") || s.calls("deploy") != "" {
		t.Errorf("planned %s, deployed %s", s.calls("plan"), s.calls("deploy"))
	}
	for _, name := range []string{"fleet-run.json", "fleet-run.json.lock", "home"} {
		if _, err := os.Lstat(filepath.Join(s.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a preview has made %s: %v", name, err)
		}
	}
	opts := s.options(t)
	opts.IncludeBlocked = true
	if r, err = Preview(t.Context(), opts); err != nil || r.Find("f").Verdict != schedule.Waiting {
		t.Errorf("%v: %s", err, verdicts(r))
	}
}

// Members are selected by selectors, by their last result and by the age of their VM.
// They start in the order of the fleet file, or by name.
func TestChoice(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	s := newSite(t, "cab", "", nil)
	s.deployedAs(t, "a", func(st *state.State) { st.Own.Created = &noon })
	preview := func(change func(*Options)) string {
		t.Helper()
		opts := s.options(t)
		change(&opts)
		r, err := Preview(t.Context(), opts)
		if err != nil {
			return err.Error()
		}
		return verdicts(r)
	}
	only := func(texts ...string) (list []fleet.Selector) {
		for _, text := range texts {
			one, err := fleet.ParseSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, one)
		}
		return list
	}
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(*Options) {}, "c waiting, a waiting, b waiting"},
		{func(o *Options) { o.Only = only("b", "c") }, "c waiting, b waiting"},
		{func(o *Options) { o.Only = only("failed") }, `no member is selected: "bootstrap fleet status FLEET" lists them`},
		{func(o *Options) { o.CreatedBefore = noon }, "c waiting, a unchanged, b waiting"},
		{func(o *Options) { o.CreatedBefore = noon.Add(time.Second) }, "c waiting, a waiting, b waiting"},
		{func(o *Options) { o.Fleet.Update.Order = fleet.NameOrder }, "a waiting, b waiting, c waiting"},
		{func(o *Options) { o.Action = fleet.DeleteStrategy }, "c unchanged, a waiting, b unchanged"},
		{func(o *Options) { o.Action, o.Choice.Removed = fleet.DeleteStrategy, true }, ""},
	} {
		if got := preview(c.change); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	opts := s.options(t)
	old := newRecord(opts, opts.Fleet.Members)
	old.Members[1].Verdict, old.Result = schedule.Failed, Failed
	if err := old.save(); err != nil {
		t.Fatal(err)
	}
	if got := preview(func(o *Options) { o.Only = only("failed") }); got != "a waiting" {
		t.Errorf("those that failed: %s", got)
	}
}

// A member that was removed from the fleet file and is still deployed is deleted
// with --removed, by its state alone.
func TestRemovedMember(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", nil)
	s.deployedAs(t, "a", nil)
	s.deployedAs(t, "b", nil)
	if _, err := Deploy(t.Context(), s.options(t)); err != nil {
		t.Fatal(err)
	}
	s.write(t, "fleet.yml", "members: [{manifest: a.yml}]\n")
	opts := s.options(t)
	opts.Action, opts.Choice.Removed = fleet.DeleteStrategy, true
	r, err := Preview(t.Context(), opts)
	if err != nil || verdicts(r) != "b waiting" || len(r.Removed) != 1 || r.Removed[0].String() != "b (VM vm-b, disk disk-b)" {
		t.Fatalf("%v: %s, %v", err, verdicts(r), r.Removed)
	}
	if r, err = Deploy(t.Context(), opts); err != nil || verdicts(r) != "b done" || s.calls("delete") != "b" {
		t.Errorf("%v: %s; deleted %s", err, verdicts(r), s.calls("delete"))
	}
	if got := s.file("arguments-delete-b"); !strings.HasPrefix(got, "delete --skip-if-missing --bootstrap-yml= --state="+s.dir+"/b-state.json ") {
		t.Errorf("arguments: %s", got)
	}
}

// A run that is refused or declined starts nothing and writes no record.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*testing.T, *site, *Options)
		err     string
		planned bool
	}{
		"declined": {func(_ *testing.T, _ *site, o *Options) {
			o.Confirm = func(_ context.Context, r *Record) error {
				if verdicts(r) != "a waiting, b waiting" {
					return errors.New("the question is about " + verdicts(r))
				}
				return errors.New("declined")
			}
		}, "declined", true},
		"another run": {func(t *testing.T, s *site, o *Options) {
			lock, err := file.LockFleet(lockPath(s.path), state.Holder{User: "bert", Host: "h2", Command: "fleet deploy"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(lock.Remove)
		}, "the fleet is locked", false},
		"a damaged record": {func(t *testing.T, s *site, _ *Options) { s.write(t, "fleet-run.json", "{") }, "cannot read the record of the last run", false},
		"a newer record": {func(t *testing.T, s *site, _ *Options) {
			s.write(t, "fleet-run.json", `{"format":2,"id":"x"}`)
		}, "has the format 2, and this bootstrap reads format 1", false},
		"a folder as record": {func(t *testing.T, s *site, _ *Options) {
			if err := os.Mkdir(filepath.Join(s.dir, "fleet-run.json"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "it is not a regular file", false},
		"no folder for logs": {func(t *testing.T, s *site, o *Options) {
			s.write(t, "logs", "")
			o.Logs = filepath.Join(s.dir, "logs")
		}, "cannot make the folder of the logs", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "ab", "", nil)
			opts := s.options(t)
			c.arrange(t, s, &opts)
			before := s.file("fleet-run.json")
			_, err := Deploy(t.Context(), opts)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
			if s.calls("deploy") != "" || (s.calls("plan") != "") != c.planned || s.file("fleet-run.json") != before {
				t.Errorf("deployed %q, planned %q, record %s", s.calls("deploy"), s.calls("plan"), s.file("fleet-run.json"))
			}
		})
	}
}

// If nothing changes, no question is asked.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	const nothing = `echo '` + nothingPlan + `'; echo '{"kind":"result","exit_code":0}'; exit 0`
	s := newSite(t, "ab", "", map[string]string{"plan a": nothing, "plan b": nothing})
	opts := s.options(t)
	opts.Confirm = func(context.Context, *Record) error { return errors.New("a question") }
	if r, err := Deploy(t.Context(), opts); err != nil || verdicts(r) != "a unchanged, b unchanged" || r.Result != Done || s.calls("deploy") != "" {
		t.Errorf("%v: %s", err, verdicts(r))
	}
}

// If the planning is interrupted, nothing is changed.
func TestInterruptedPlanning(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", map[string]string{
		"plan a": `trap 'exit 130' TERM; while :; do sleep 0.05; done`,
	})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	opts := s.options(t)
	opts.Report = func(e Event) { interrupt() } // b is planned
	_, err := Deploy(ctx, opts)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || interrupted.Asking || s.record(t) != nil || s.calls("deploy") != "" {
		t.Errorf("%v, record %v", err, s.record(t))
	}
}

// killedRun runs the fleet in another process and kills its process group when the
// condition is met. The processes of members survive.
func (s *site) killedRun(t *testing.T, when func() bool) {
	t.Helper()
	text, err := json.Marshal(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_ROLLOUT="+string(text))
	process.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = until(t.Context(), when)
	process.KillGroup(cmd.Process.Pid)
	if ended := cmd.Wait(); err != nil || ended == nil {
		t.Fatalf("the run was not killed in time: %v, %v; %s", err, ended, s.file("calls"))
	}
}

// A killed run is continued: with its ID, its canary and its results. The member that was
// running is started again, and waits for the process of its first start.
func TestContinue(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "max_in_flight: 1", map[string]string{"deploy b": "until [ -f go ] || [ ! -d \"$PWD\" ]; do sleep 0.05; done; echo x >>ended"})
	s.killedRun(t, func() bool { return s.calls("deploy") == "a b" })
	first := s.record(t)
	if verdicts(first) != "a done, b running, c waiting" || first.Ended != nil {
		t.Fatalf("after the kill: %s", verdicts(first))
	}
	s.write(t, "go", "")
	s.does(t, "plan a", `echo '`+nothingPlan+`'; echo '{"kind":"result","exit_code":0}'; exit 0`)
	r, err := Deploy(t.Context(), s.options(t))
	if err != nil || verdicts(r) != "a done, b done, c done" || s.calls("deploy") != "a b b c" {
		t.Errorf("%v: %s; deployed %s", err, verdicts(r), s.calls("deploy"))
	}
	if r.ID != first.ID || r.Logs != first.Logs || !r.Started.Equal(first.Started) || !r.Find("a").Canary || r.Find("a").Attempts != 1 || r.Find("b").Attempts != 2 || r.Find("c").Canary {
		t.Errorf("continued as %s: %+v, %+v", r.ID, r.Find("a"), r.Find("b"))
	}
	if !strings.HasSuffix(s.file("arguments-deploy-b"), " --lock-wait=2h") || strings.Contains(s.file("arguments-deploy-c"), "--lock-wait") {
		t.Errorf("b: %s\nc: %s", s.file("arguments-deploy-b"), s.file("arguments-deploy-c"))
	}
	if err := until(t.Context(), func() bool { return s.file("ended") == "x\nx" }); err != nil {
		t.Errorf("the first process of b was killed with the run: %s", s.file("ended"))
	}
}

// If a member was done when the run continues, it is not started again, however its first
// start ended. If it cannot be planned, it is, because its first start may be in the
// middle of a change.
func TestContinueAfterEnd(t *testing.T) {
	t.Parallel()
	for plan, deploys := range map[string]string{
		`echo '` + nothingPlan + `'; echo '{"kind":"result","exit_code":0}'; exit 0`:   "a",
		`echo '{"kind":"result","exit_code":1,"error":"its agent is silent"}'; exit 1`: "a a",
	} {
		s := newSite(t, "a", "", map[string]string{"deploy a": "until [ -f go ] || [ ! -d \"$PWD\" ]; do sleep 0.05; done"})
		s.killedRun(t, func() bool { return s.calls("deploy") == "a" })
		s.write(t, "go", "")
		s.does(t, "plan a", plan)
		r, err := Deploy(t.Context(), s.options(t))
		if err != nil || verdicts(r) != "a done" || r.Find("a").Ended == nil || s.calls("deploy") != deploys {
			t.Errorf("%v: %s; deployed %s, want %s", err, verdicts(r), s.calls("deploy"), deploys)
		}
	}
}

// If a member that was done has changes again, the run is a new one, in which the old
// canary does not count.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "", map[string]string{"deploy b": "until [ -f go ] || [ ! -d \"$PWD\" ]; do sleep 0.05; done"})
	s.killedRun(t, func() bool { return s.calls("deploy") == "a b" })
	first := s.record(t)
	s.write(t, "go", "")
	s.does(t, "plan b", `echo '`+nothingPlan+`'; echo '{"kind":"result","exit_code":0}'; exit 0`)
	r, err := Deploy(t.Context(), s.options(t))
	if err != nil || verdicts(r) != "a done, b unchanged, c done" || s.calls("deploy") != "a b a c" {
		t.Errorf("%v: %s; deployed %s", err, verdicts(r), s.calls("deploy"))
	}
	if r.ID == first.ID || r.Find("a").Attempts != 1 {
		t.Errorf("the run is still %s: %+v", r.ID, r.Find("a"))
	}
}

// Only the same command continues a run. After an update that ended, or with another
// choice of members, a new run begins. A recreate that failed is continued, so that no VM
// is replaced twice.
func TestContinues(t *testing.T) {
	t.Parallel()
	name, err := fleet.ParseSelector("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action fleet.Strategy
		result Result
		change func(*Options)
		want   bool
	}{
		{fleet.UpdateStrategy, "", func(*Options) {}, true},
		{fleet.UpdateStrategy, "", func(o *Options) { o.Only = []fleet.Selector{name} }, false},
		{fleet.UpdateStrategy, "", func(o *Options) { o.IncludeBlocked = true }, false},
		{fleet.UpdateStrategy, "", func(o *Options) { o.Action = fleet.RecreateStrategy }, false},
		{fleet.UpdateStrategy, Failed, func(*Options) {}, false},
		{fleet.UpdateStrategy, Done, func(*Options) {}, false},
		{fleet.RecreateStrategy, "", func(*Options) {}, true},
		{fleet.RecreateStrategy, Failed, func(*Options) {}, true},
		{fleet.RecreateStrategy, Busy, func(*Options) {}, true},
		{fleet.RecreateStrategy, Interrupted, func(*Options) {}, true},
		{fleet.RecreateStrategy, Aborted, func(*Options) {}, false},
		{fleet.RecreateStrategy, Done, func(*Options) {}, false},
		{fleet.DeleteStrategy, Failed, func(*Options) {}, true},
	} {
		opts := Options{Action: c.action}
		old := &Record{Action: c.action, Result: c.result, Chosen: opts.Choice.String()}
		c.change(&opts)
		if got := continues(old, opts); got != c.want {
			t.Errorf("%s after %q: %t", c.action, c.result, got)
		}
	}
	if continues(nil, Options{}) {
		t.Error("a run continues without a record")
	}
}

// The command in a hint has the same members.
func TestNextCommand(t *testing.T) {
	t.Parallel()
	for result, want := range map[Result]string{
		Failed:      `"bootstrap fleet status f.yml" names the reasons and the logs; correct the cause, then "bootstrap fleet recreate f.yml --only a --include-blocked --created-before 2026-11-26T12:00:00Z" does what is left`,
		Busy:        `"bootstrap fleet recreate f.yml --only a --include-blocked --created-before 2026-11-26T12:00:00Z" tries these again`,
		Aborted:     `"bootstrap fleet recreate f.yml --only a --include-blocked --created-before 2026-11-26T12:00:00Z" begins a new run`,
		Interrupted: `"bootstrap fleet recreate f.yml --only a --include-blocked --created-before 2026-11-26T12:00:00Z" does what is left`,
	} {
		e := &EndedError{Record: &Record{Fleet: "f.yml", Action: fleet.RecreateStrategy, Result: result, Chosen: "a --include-blocked --created-before=1795694400"}}
		if got := e.Hint(); got != want {
			t.Errorf("%s: %s", result, got)
		}
	}
	for action, want := range map[fleet.Strategy]string{fleet.UpdateStrategy: "the fleet shop is not updated: 1 member failed (1 done, 1 failed)", fleet.DeleteStrategy: "the fleet shop is not deleted: 1 member failed (1 done, 1 failed)"} {
		e := &EndedError{Record: &Record{Name: "shop", Action: action, Reason: "1 member failed", Members: []*Member{{Verdict: schedule.Done}, {Verdict: schedule.Failed}}}}
		if e.Error() != want {
			t.Errorf("%s, want %s", e.Error(), want)
		}
	}
}

// Current, which workers on other machines call, succeeds only if the record says that
// this run has started the member.
func TestCurrent(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "", nil)
	opts := s.options(t)
	r := newRecord(opts, opts.Fleet.Members)
	r.Members[0].Verdict = schedule.Running
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	if err := Current(t.Context(), s.path, r.ID, "a"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, c := range []struct{ run, member, want string }{{"other", "a", "is not running, according to"}, {r.ID, "b", "has not started it, according to"}} {
		if err := Current(ctx, s.path, c.run, c.member); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v", c.member, c.run, err)
		}
	}
}

// A recreate that is continued does not replace the VM that its first start created.
func TestContinueRecreate(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "strategy: recreate", map[string]string{"recreate a": "until [ -f go ] || [ ! -d \"$PWD\" ]; do sleep 0.05; done"})
	s.deployedAs(t, "a", nil)
	s.killedRun(t, func() bool { return s.calls("recreate") == "a" })
	s.write(t, "go", "")
	r, err := Deploy(t.Context(), s.options(t))
	if err != nil || verdicts(r) != "a done" || s.calls("recreate") != "a a" {
		t.Errorf("%v: %s; recreated %s", err, verdicts(r), s.calls("recreate"))
	}
	begun := r.Started.Truncate(time.Second).Format(time.RFC3339)
	for file, want := range map[string]string{
		"arguments-plan-a":     " --recreate --fix --created-before=" + begun,
		"arguments-recreate-a": "recreate --fix --created-before=" + begun,
	} {
		if got := s.file(file); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
