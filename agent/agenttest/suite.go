package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
)

// suite is the state that the parts of one run share.
type suite struct {
	target Target
	direct *agent.Client // straight to the agent
	c      *agent.Client // its requests go through watch
	watch  *watch

	alpha, beta string     // jobs
	one, two    agent.Blob // compiled
	packages    map[string]agent.SpecPackage
}

// Run compares the target with the real agent: first with the transcripts (Replay),
// then through the whole life of a VM, from compiling to migrating disks. It compares
// the shape of every reply with the transcripts, and leaves the agent with an empty
// spec.
func Run(t *testing.T, target Target) {
	t.Run("replay", func(t *testing.T) { Replay(t, target) })
	shapes, err := Shapes(Transcripts(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{target: target, direct: target.client(t)}
	// Logs outlive their jobs, and logs of another run are ignored.
	run := uuid(t)[:8]
	s.alpha, s.beta = "alpha-"+run, "beta-"+run
	s.watch, s.c = newWatch(t, target, shapes)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
		need bool // the following parts need this part
	}{
		{"reach", s.reach, true},
		{"blobs", s.blobs, true},
		{"compile", s.compile, true},
		{"compile failures", s.compileFailures, false},
		{"apply", s.apply, true},
		{"scripts", s.scripts, false},
		{"start", s.start, true},
		{"tasks", s.tasks, false},
		{"errand", s.errand, false},
		{"drain", s.drain, false},
		{"stop", s.stop, false},
		{"update", s.update, false},
		{"logs", s.logKinds, false},
		{"restart", s.restart, false},
		{"disks", s.disks, false},
		{"others", s.others, false},
		{"signed", s.signed, false},
		{"empty", s.clear, false},
	} {
		s.watch.record.begin(part.name)
		if !t.Run(part.name, part.run) && part.need {
			t.Fatalf("without %s the rest cannot be tested", part.name)
		}
	}
	s.watch.record.write(t)
	t.Run("every message", s.everyMessage)
}

// within returns a context for one wait of a test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// refused checks that err is an exception of the agent and contains want.
func refused(t testing.TB, err error, want string) {
	t.Helper()
	var e *agent.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, want) {
		t.Errorf("got %v, want that the agent says %q", err, want)
	}
}

func (s *suite) reach(t *testing.T) {
	if err := s.direct.WaitReady(t.Context(), time.Minute, func(p agent.Probe) { t.Logf("%s: %v", p.Cause, p.Err) }); err != nil {
		t.Fatal(err)
	}
	if s.direct.Unverified() {
		t.Error("the agent is not verified")
	}
	if info, err := s.c.Info(t.Context()); err != nil || info.APIVersion != 1 {
		t.Errorf("got API version %d, %v, want 1", info.APIVersion, err)
	}
	if err := s.c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := s.c.Call(t.Context(), "no_such_message")
	if !agent.UnknownMessage(err) {
		t.Errorf("got %v, want an unknown message", err)
	}
	for _, method := range s.target.Unsupported {
		if _, err := s.c.Call(t.Context(), method); !agent.UnknownMessage(err) {
			t.Errorf("%s: got %v, want an unknown message", method, err)
		}
	}
	base, user, _ := s.target.base(t)
	stranger, err := agent.New(agent.Config{URL: strings.Replace(base, "https://", "https://"+user+":wrong@", 1), CA: s.target.CA, Dial: s.target.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	var silent *agent.UnreachableError
	if err := stranger.Ping(t.Context()); !errors.As(err, &silent) || silent.Last.Cause != agent.Unauthorized {
		t.Errorf("got %v, want that the password is wrong", err)
	}
}

func (s *suite) blobs(t *testing.T) {
	// The content is larger than any buffer on the way.
	content := []byte(strings.Repeat("0123456789abcdef", 1<<19))
	blob := s.upload(t, content)
	if got := s.download(t, blob); string(got) != string(content) {
		t.Error("the blob is not what was uploaded")
	}
	if err := s.direct.GetBlobUpTo(t.Context(), agent.LogsLimit, blob.BlobstoreID, &strings.Builder{}, blob.SHA1, nil); err != nil {
		t.Error(err)
	}
	if err := s.c.GetBlobUpTo(t.Context(), agent.LogsLimit, uuid(t), &strings.Builder{}, "", nil); err == nil || !strings.Contains(err.Error(), "does not have it") {
		t.Errorf("got %v, want that the blob is missing", err)
	}
}

func (s *suite) compile(t *testing.T) {
	source := s.upload(t, pack(t, map[string]string{
		"src/hello": "hello from the source\n",
		"packaging": `set -e
echo "$BOSH_PACKAGE_NAME/$BOSH_PACKAGE_VERSION" > "$BOSH_INSTALL_TARGET/info"
cp src/hello "$BOSH_INSTALL_TARGET/hello"
mkdir "$BOSH_INSTALL_TARGET/bin"
printf '#!/bin/sh\n' > "$BOSH_INSTALL_TARGET/bin/tool"
chmod +x "$BOSH_INSTALL_TARGET/bin/tool"
ln -s tool "$BOSH_INSTALL_TARGET/bin/link"
[ "$(cd "$BOSH_COMPILE_TARGET" && pwd -P)" = "$(pwd -P)" ]
`,
	}))
	var err error
	s.one, err = s.c.CompilePackage(t.Context(), agent.CompileRequest{Source: source, Name: "one", Version: "one-v1"})
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, s.download(t, s.one))
	if files["info"] != "one/one-v1\n" || files["hello"] != "hello from the source\n" {
		t.Errorf("the compiled package holds %q", files)
	}
	if _, ok := files["bin/link"]; !ok {
		t.Error("the compiled package has lost a link")
	}
	source = s.upload(t, pack(t, map[string]string{"packaging": `set -e
cat "${VCAP_ROOT:-/var/vcap}/packages/one/info" > "$BOSH_INSTALL_TARGET/seen"
ls "${VCAP_ROOT:-/var/vcap}/packages" >> "$BOSH_INSTALL_TARGET/seen"
`}))
	one := agent.SpecPackage{Name: "one", Version: "one-v1", SHA1: s.one.SHA1, BlobstoreID: s.one.BlobstoreID}
	s.two, err = s.c.CompilePackage(t.Context(), agent.CompileRequest{
		Source: source, Name: "two", Version: "two-v1", Dependencies: map[string]agent.SpecPackage{"one": one},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, s.download(t, s.two))["seen"]; got != "one/one-v1\none\ntwo\n" {
		t.Errorf("while compiling, the packages are %q", got)
	}
	s.packages = map[string]agent.SpecPackage{
		"one": one, "two": {Name: "two", Version: "two-v1", SHA1: s.two.SHA1, BlobstoreID: s.two.BlobstoreID},
	}
}

func (s *suite) compileFailures(t *testing.T) {
	source := s.upload(t, pack(t, map[string]string{"packaging": "echo first\necho about to fail\necho trouble >&2\nexit 9\n"}))
	compile := func(r agent.CompileRequest) error {
		t.Helper()
		r.Name, r.Version = "bad", "bad-v1"
		_, err := s.c.CompilePackage(t.Context(), r)
		return err
	}
	err := compile(agent.CompileRequest{Source: source})
	for _, want := range []string{"Compiling package bad: ", "Command exited with 9", "about to fail", "trouble"} {
		refused(t, err, want)
	}
	wrong := agent.Blob{BlobstoreID: source.BlobstoreID, SHA1: "sha256:" + strings.Repeat("0", 64)}
	refused(t, compile(agent.CompileRequest{Source: wrong}), "Expected stream to have digest '"+wrong.SHA1+"' but was '"+source.SHA1+"'")
	missing := agent.Blob{BlobstoreID: uuid(t), SHA1: source.SHA1}
	refused(t, compile(agent.CompileRequest{Source: missing}), "Fetching package blob "+missing.BlobstoreID)
	garbage := s.upload(t, []byte("this is no archive"))
	refused(t, compile(agent.CompileRequest{Source: garbage}), "Compiling package bad: ")
	dependency := map[string]agent.SpecPackage{"one": {Name: "one", Version: "one-v1", SHA1: s.one.SHA1, BlobstoreID: uuid(t)}}
	refused(t, compile(agent.CompileRequest{Source: source, Dependencies: dependency}), "Installing dependent package: 'one'")
}

func (s *suite) apply(t *testing.T) {
	if err := s.c.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.c.Apply(t.Context(), s.empty("")); err != nil {
		t.Fatal(err)
	}
	state, err := s.c.GetState(t.Context(), false)
	if err != nil || state.Deployment != "agenttest" || len(state.Job.Templates) != 0 {
		t.Errorf("after the first spec: %v, %+v", err, state.Spec)
	}
	jobs := map[string]map[string]string{s.alpha: daemon(s.alpha, "first"), s.beta: quiet(s.beta)}
	spec := s.spec(t, "hash-1", map[string]string{s.alpha: "a1", s.beta: "b1"}, jobs)
	wrong := spec
	wrong.RenderedTemplates.SHA1 = "sha256:" + strings.Repeat("0", 64)
	refused(t, s.c.Apply(t.Context(), wrong), "Applying: Applying job ")
	if state, err := s.c.GetState(t.Context(), false); err != nil || len(state.Job.Templates) != 0 {
		t.Errorf("after a spec that failed: %v, %+v", err, state.Spec)
	}
	if err := s.c.Apply(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	state, err = s.c.GetState(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, template := range state.Job.Templates {
		names = append(names, template.Name+"/"+template.Version)
	}
	if !slices.Equal(names, []string{s.alpha + "/a1", s.beta + "/b1"}) || state.ConfigurationHash != "hash-1" || state.Vitals == nil || state.AgentID == "" {
		t.Errorf("got the jobs %q in %+v", names, state)
	}
	for name, p := range s.packages {
		if state.Packages[name] != p {
			t.Errorf("the package %s is %+v, want %+v", name, state.Packages[name], p)
		}
	}
	if err := s.c.GetBlobUpTo(t.Context(), agent.LogsLimit, spec.RenderedTemplates.BlobstoreID, &strings.Builder{}, "", nil); err == nil {
		t.Error("the rendered templates are still in the blobstore")
	}
	// All packages and jobs are installed, so the archive is not needed any more.
	if err := s.c.Apply(t.Context(), spec); err != nil {
		t.Errorf("the same spec again: %v", err)
	}
}

func (s *suite) scripts(t *testing.T) {
	if err := s.c.RunScript(t.Context(), "pre-start", map[string]string{"EXTRA": "of the caller"}); err != nil {
		t.Fatal(err)
	}
	logs := s.logs(t, s.alpha)
	if want := "first out of the caller\nargs=0\none/one-v1\none/one-v1\none/one-v1\none\ntwo\n"; logs["pre-start.stdout.log"] != want {
		t.Errorf("pre-start says %q, want %q", logs["pre-start.stdout.log"], want)
	}
	if logs["pre-start.stderr.log"] != "first err\n" {
		t.Errorf("pre-start's errors are %q", logs["pre-start.stderr.log"])
	}
	if got := s.logs(t, s.beta)["pre-start.stdout.log"]; got != "pre-start of "+s.beta+"\n" {
		t.Errorf("beta's pre-start says %q", got)
	}
	if err := s.c.RunScript(t.Context(), "pre-start", nil); err != nil {
		t.Fatal(err)
	}
	if got := s.logs(t, s.beta)["pre-start.stdout.log"]; got != strings.Repeat("pre-start of "+s.beta+"\n", 2) {
		t.Errorf("beta's log is %q, want both runs", got)
	}
	refused(t, s.c.RunScript(t.Context(), "pre-start", map[string]string{"FAIL": s.alpha}),
		fmt.Sprintf("1 of 2 pre-start scripts failed. Failed Jobs: %s. Successful Jobs: %s.", s.alpha, s.beta))
	if err := s.c.RunScript(t.Context(), "no-job-has-it", nil); err != nil {
		t.Error(err)
	}
}

// becomes waits for a job state; if running is true, it waits until all processes run,
// too. The real agent reads the processes before the state, so that one reply can contain
// the state running and a process that does not run.
func (s *suite) becomes(t *testing.T, want string) agent.State {
	t.Helper()
	ctx := within(t, 90*time.Second)
	var seen []string
	for {
		state, err := s.c.GetState(ctx, false)
		if err != nil {
			t.Fatalf("the job states were %q, want %s: %v", seen, want, err)
		}
		up := !slices.ContainsFunc(state.Processes, func(p agent.Process) bool { return p.State != "running" })
		if state.JobState == want && (up || want != "running") {
			return state
		}
		if len(seen) == 0 || seen[len(seen)-1] != state.JobState {
			seen = append(seen, state.JobState)
		}
		pause(t, 50*time.Millisecond)
	}
}

func (s *suite) start(t *testing.T) {
	if err := s.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := s.becomes(t, "running")
	if len(state.Processes) != 1 || state.Processes[0].Name != s.alpha || state.Processes[0].State != "running" {
		t.Errorf("got the processes %+v, want %s running", state.Processes, s.alpha)
	}
	if got := s.logs(t, s.alpha)["ctl.log"]; got != "started\n" {
		t.Errorf("the start program ran like this: %q", got)
	}
	if err := s.c.Start(t.Context()); err != nil {
		t.Errorf("start when running: %v", err)
	}
	s.becomes(t, "running")
	if err := s.c.RunScript(t.Context(), "post-start", nil); err != nil {
		t.Error(err)
	}
}

// everyMessage checks that the suite has sent every message.
func (s *suite) everyMessage(t *testing.T) {
	want := []string{
		"ping", "info", "get_state", "get_task", "cancel_task", "prepare", "apply", "start", "stop", "drain", "run_script",
		"compile_package", "fetch_logs", "run_errand",
	}
	if s.target.Disk != nil {
		want = append(want, "list_disk", "mount_disk", "unmount_disk", "migrate_disk", "add_persistent_disk", "remove_persistent_disk")
	}
	for _, method := range []string{"ssh", "sync_dns", "update_settings"} {
		if s.target.supports(method) {
			want = append(want, method)
		}
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, method := range want {
		if s.target.supports(method) && s.watch.calls[method] == 0 {
			t.Errorf("%s was never sent", method)
		}
	}
	t.Log(fmt.Sprint(s.watch.calls))
}
