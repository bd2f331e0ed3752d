package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
)

// Tasks run one after the other, and none is lost.
func (s *suite) tasks(t *testing.T) {
	ctx := within(t, time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- s.c.RunScript(ctx, "long", nil) }()
	pause(t, 300*time.Millisecond)
	start := time.Now()
	if err := s.c.Ping(ctx); err != nil {
		t.Errorf("the agent does not answer while a task runs: %v", err)
	}
	if err := s.c.RunScript(ctx, "post-start", nil); err != nil {
		t.Error(err)
	}
	// The first task takes two seconds.
	if took := time.Since(start); took < 1500*time.Millisecond {
		t.Errorf("the second task was done after %s, before the first one", took)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, _, err := s.c.GetTask(ctx, uuid(t))
	refused(t, err, "could not be found")
}

func (s *suite) errand(t *testing.T) {
	value, err := s.c.Call(t.Context(), "run_errand", s.alpha)
	if want := []byte(`{"stdout":"errand out\n","stderr":"errand err\n","exit_code":7}`); err != nil || !SameJSON(value, want) {
		t.Errorf("got %s, %v", value, err)
	}
	_, err = s.c.Call(t.Context(), "run_errand", "nobody")
	refused(t, err, "Could not find errand nobody")
}

// drained runs a drain whose script prints the lines of plan, and returns the arguments
// of the script's calls.
func (s *suite) drained(t *testing.T, plan, kind string, next *agent.Spec) (calls []string, err error) {
	t.Helper()
	if err := s.c.RunScript(t.Context(), "plan-drain", map[string]string{"PLAN": plan}); err != nil {
		t.Fatal(err)
	}
	before := len(strings.Split(s.logs(t, s.alpha)["drain.log"], "\n"))
	err = s.c.Drain(t.Context(), kind, next)
	lines := strings.Split(s.logs(t, s.alpha)["drain.log"], "\n")
	return lines[before-1 : len(lines)-1], err
}

func (s *suite) drain(t *testing.T) {
	state, err := s.c.GetState(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	changed := state.Spec
	changed.ConfigurationHash = "hash-other"
	const none = `{"persistent_disk":0}`
	for _, test := range []struct {
		name, plan, kind string
		next             *agent.Spec
		want             []string
		least            time.Duration
	}{
		{"shutdown", "0\n", "shutdown", nil, []string{"args=job_shutdown hash_unchanged;state=" + none + ";next=" + none}, 0},
		{"static", "1\n", "shutdown", nil, []string{"args=job_shutdown hash_unchanged;state=" + none + ";next=" + none}, time.Second},
		{"dynamic", "-1\n0\n", "shutdown", nil, []string{
			"args=job_shutdown hash_unchanged;state=" + none + ";next=" + none, "args=job_check_status hash_unchanged;state=" + none + ";next=",
		}, time.Second},
		{"update", "0\n", "update", &changed, []string{"args=job_changed hash_changed;state=" + none + ";next=" + none}, 0},
	} {
		start := time.Now()
		calls, err := s.drained(t, test.plan, test.kind, test.next)
		if err != nil || !slices.Equal(calls, test.want) {
			t.Errorf("%s: got %q, %v, want %q", test.name, calls, err, test.want)
		}
		if took := time.Since(start); took < test.least {
			t.Errorf("%s: over after %s, want %s at least", test.name, took, test.least)
		}
	}
	_, err = s.drained(t, "no number\n", "shutdown", nil)
	refused(t, err, "1 of 1 drain scripts failed. Failed Jobs: "+s.alpha+".")
	s.cancelDrain(t)
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, "running")
}

// cancelDrain cancels a drain that would take very long.
func (s *suite) cancelDrain(t *testing.T) {
	if err := s.c.RunScript(t.Context(), "plan-drain", map[string]string{"PLAN": "600\n"}); err != nil {
		t.Fatal(err)
	}
	r := &replayer{target: s.target, transport: s.watch.transport}
	r.base, r.user, r.password = s.target.base(t)
	id, ok := taskID(r.post(t, agent.Request{Method: "drain", Arguments: []any{"shutdown", map[string]any{}}}))
	if !ok {
		t.Fatal("drain is no task")
	}
	// Until the script runs, nothing can be cancelled.
	pause(t, 500*time.Millisecond)
	if _, running, err := s.c.GetTask(t.Context(), id); err != nil || !running {
		t.Errorf("the drain runs: %v, %v", running, err)
	}
	if _, err := s.c.Call(t.Context(), "cancel_task", id); err != nil {
		t.Fatal(err)
	}
	if got := string(r.await(t, id)); got != `{"value":0}` {
		t.Errorf("the cancelled drain ends with %s", got)
	}
}

func (s *suite) stop(t *testing.T) {
	if err := s.c.RunScript(t.Context(), "pre-stop", nil); err != nil {
		t.Error(err)
	}
	if err := s.c.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	// GetState is called at once, because a process ends before its stop program does.
	if got := s.logs(t, s.alpha)["ctl.log"]; !strings.HasSuffix(got, "stopped\n") {
		t.Errorf("stop came back before the job was down: %q", got)
	}
	state, err := s.c.GetState(t.Context(), false)
	if err != nil || state.JobState != "stopped" {
		t.Errorf("got the state %s, %v, want stopped", state.JobState, err)
	}
	if err := s.c.RunScript(t.Context(), "post-stop", nil); err != nil {
		t.Error(err)
	}
	for name, stop := range map[string]func(context.Context) error{"stop": s.c.Stop, "plain stop": s.c.StopAsync} {
		if err := stop(t.Context()); err != nil {
			t.Errorf("%s when stopped: %v", name, err)
		}
	}
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, "running")
	if err := s.c.StopAsync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, "stopped")
	if err := s.c.Stop(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
}

// update installs a new version, which is prepared while the old version runs.
func (s *suite) update(t *testing.T) {
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, "running")
	next := s.spec(t, "hash-2", map[string]string{s.alpha: "a2"}, map[string]map[string]string{s.alpha: daemon(s.alpha, "second")})
	if err := s.c.Prepare(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	state := s.becomes(t, "running")
	if state.ConfigurationHash != "hash-1" || len(state.Job.Templates) != 2 {
		t.Errorf("prepare changed the spec: %+v", state.Spec)
	}
	if err := s.c.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.c.Apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	before := len(s.logs(t, s.alpha)["pre-start.stdout.log"])
	if err := s.c.RunScript(t.Context(), "pre-start", nil); err != nil {
		t.Error(err)
	}
	if got := s.logs(t, s.alpha)["pre-start.stdout.log"][before:]; !strings.HasPrefix(got, "second out") {
		t.Errorf("after the update pre-start says %q", got)
	}
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	state = s.becomes(t, "running")
	if state.ConfigurationHash != "hash-2" || len(state.Job.Templates) != 1 {
		t.Errorf("after the update the spec is %+v", state.Spec)
	}
	refused(t, s.c.RunScript(t.Context(), "pre-start", map[string]string{"FAIL": s.alpha}), "1 of 1 pre-start scripts failed. Failed Jobs: "+s.alpha+".")
}

func (s *suite) logKinds(t *testing.T) {
	blob, err := s.c.FetchLogs(t.Context(), "job", []string{"**/ctl.log"})
	if err != nil {
		t.Fatal(err)
	}
	for name := range unpack(t, s.download(t, blob.Blob)) {
		if !strings.HasSuffix(name, "/") && path.Base(name) != "ctl.log" {
			t.Errorf("the filter lets %s through", name)
		}
	}
	if blob, err = s.c.FetchLogs(t.Context(), "job,agent", nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := unpack(t, s.download(t, blob.Blob))[s.alpha+"/ctl.log"]; !ok {
		t.Error("the logs of job and agent lack the job's")
	}
	_, err = s.c.FetchLogs(t.Context(), "nonsense", nil)
	refused(t, err, "Invalid log type")
}

func (s *suite) disks(t *testing.T) {
	if s.target.Disk == nil {
		t.Skip("the target has no disks")
	}
	// A restarted agent mounts the last mounted disk again.
	cids, err := s.c.ListDisk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, cid := range cids {
		if err := s.c.UnmountDisk(t.Context(), cid); err != nil {
			t.Fatal(err)
		}
	}
	mounted := func(want ...string) {
		t.Helper()
		cids, err := s.c.ListDisk(t.Context())
		slices.Sort(cids)
		slices.Sort(want)
		if err != nil || !slices.Equal(cids, want) {
			t.Errorf("got the disks %q, %v, want %q", cids, err, want)
		}
	}
	kept := func(want string) {
		t.Helper()
		before := len(s.logs(t, s.alpha)["kept.stdout.log"])
		if err := s.c.RunScript(t.Context(), "kept", nil); err != nil {
			t.Fatal(err)
		}
		if got := s.logs(t, s.alpha)["kept.stdout.log"][before:]; !strings.HasPrefix(got, want) {
			t.Errorf("the store holds %q, want %q", got, want)
		}
	}
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ctx := within(t, 3*time.Minute)
	mounted()
	first, hint := s.target.Disk(t)
	refused(t, s.c.MountDisk(ctx, "nobody-knows"), "Persistent disk with volume id 'nobody-knows' could not be found")
	do("add", s.c.AddPersistentDisk(ctx, first, hint))
	mounted()
	do("unmount, not mounted", s.c.UnmountDisk(ctx, first))
	do("mount", s.c.MountDisk(ctx, first))
	mounted(first)
	do("write", s.c.RunScript(ctx, "keep", nil))
	kept("kept\n")
	second, hint2 := s.target.Disk(t)
	do("add the second", s.c.AddPersistentDisk(ctx, second, hint2))
	do("mount the second", s.c.MountDisk(ctx, second))
	mounted(first, second)
	do("migrate", s.c.MigrateDisk(ctx))
	mounted(second)
	kept("kept\n")
	do("unmount the first", s.c.UnmountDisk(ctx, first))
	do("remove the first", s.c.RemovePersistentDisk(ctx, first))
	refused(t, s.c.MountDisk(ctx, first), "could not be found")
	do("unmount the second", s.c.UnmountDisk(ctx, second))
	mounted()
	do("mount the second again", s.c.MountDisk(ctx, second))
	kept("kept\n")
	do("unmount the second again", s.c.UnmountDisk(ctx, second))
	// The agent keeps the disk in its settings: if its last mounted disk is
	// unknown, it does not survive its next restart.
	mounted()
}

func (s *suite) others(t *testing.T) {
	if s.target.supports("ssh") {
		login, err := s.c.SetupSSH(t.Context(), "bosh_agenttest", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGj8Uo0q6h8mWkq6Jc0V1nZ3y0b6m8g8n9w1N1l1o0Zx test")
		if err != nil || login.IP == "" || login.HostPublicKey == "" {
			t.Errorf("got %+v, %v", login, err)
		}
		if err := s.c.CleanupSSH(t.Context(), "^bosh_agenttest"); err != nil {
			t.Error(err)
		}
	}
	if s.target.supports("sync_dns") {
		state, err := s.c.GetState(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		records, err := json.Marshal(map[string]any{"version": 2, "records": [][]string{{"192.0.2.77", "other.test"}}, "record_keys": []string{"id"}, "record_infos": [][]string{{state.AgentID}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.c.SyncDNS(t.Context(), s.upload(t, records), 2); err != nil {
			t.Error(err)
		}
		refused(t, s.c.SyncDNS(t.Context(), s.upload(t, records), 5), "version from unpacked dns blob does not match")
	}
	if s.target.supports("update_settings") {
		if _, err := s.c.Call(t.Context(), "update_settings", agent.UpdateSettings{}); err != nil {
			t.Error(err)
		}
	}
}

// restart ends the agent during a task. Jobs keep running.
func (s *suite) restart(t *testing.T) {
	if s.target.Restart == nil {
		t.Skip("the target cannot be restarted")
	}
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.becomes(t, "running")
	starts := strings.Count(s.logs(t, s.alpha)["ctl.log"], "started")
	ended := make(chan error, 1)
	ctx := within(t, time.Minute)
	go func() { ended <- s.direct.RunScript(ctx, "long", nil) }()
	pause(t, 300*time.Millisecond)
	s.target.Restart(t)
	var lost *agent.TaskLostError
	if err := <-ended; !errors.As(err, &lost) || !lost.Restarted {
		t.Errorf("got %v, want that the task is lost", err)
	}
	if err := s.direct.WaitReady(t.Context(), time.Minute, nil); err != nil {
		t.Fatal(err)
	}
	after := s.becomes(t, "running")
	if after.AgentID != before.AgentID || after.ConfigurationHash != before.ConfigurationHash {
		t.Errorf("after the restart the state is %+v, want %+v", after, before)
	}
	if got := strings.Count(s.logs(t, s.alpha)["ctl.log"], "started"); got != starts {
		t.Errorf("the restart started the job %d times", got-starts)
	}
}

// clear leaves the agent without jobs.
func (s *suite) clear(t *testing.T) {
	if err := s.c.Stop(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if err := s.c.Apply(t.Context(), s.empty("hash-3")); err != nil {
		t.Fatal(err)
	}
	state, err := s.c.GetState(t.Context(), false)
	if err != nil || len(state.Job.Templates) != 0 || len(state.Processes) != 0 || len(state.Packages) != 0 {
		t.Errorf("got %+v, %v, want nothing", state, err)
	}
	if err := s.c.RunScript(t.Context(), "pre-start", nil); err != nil {
		t.Errorf("a script of a job that is gone: %v", err)
	}
}
