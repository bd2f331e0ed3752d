package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.uber.org/goleak"

	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
	"bootstrap/internal/postgrestest"
	"bootstrap/internal/wait"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("QUEUE_TEST_MEMBER"); mode != "" {
		member(mode)
	}
	goleak.VerifyTestMain(m)
}

// member is the process of a member: it writes events like deploy, and ends when the
// file GO-NAME of the test exists.
func member(folder string) {
	var events string
	for _, arg := range os.Args {
		if path, ok := strings.CutPrefix(arg, "--events="); ok {
			events = path
		}
	}
	f, err := os.OpenFile(events, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		os.Exit(3)
	}
	name := strings.TrimSuffix(filepath.Base(events), ".jsonl")
	fmt.Fprintln(f, `{"kind":"plan","plan":{"changes":[{"action":"replace","what":"vm"}]}}`)
	fmt.Fprintln(f, `{"kind":"step","name":"create vm"}`)
	starts, err := os.OpenFile(filepath.Join(folder, name+".starts"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		os.Exit(3)
	}
	fmt.Fprintln(starts, os.Getpid(), strings.Join(os.Args[1:], " "))
	for {
		if _, err := os.Stat(filepath.Join(folder, name+".go")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintln(f, `{"kind":"result","exit_code":0}`)
	os.Exit(0)
}

// lab is a fleet of three members, a database, and the progress that was reported.
type lab struct {
	t        *testing.T
	dir      string
	path     string
	fleet    *fleet.Fleet
	url      string
	ctx      context.Context
	progress chan rollout.Progress
	seen     []rollout.Progress // the progress that the test has read
	events   chan Event
	dead     atomic.Bool  // workers that do not report count as dead at once
	current  atomic.Value // func(ctx, fleet, run, member) error, in place of the record of the run
}

func newLab(t *testing.T, url string) *lab {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yml"), []byte("name: "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{t: t, dir: dir, path: filepath.Join(dir, "fleet.yml"), url: url, progress: make(chan rollout.Progress, 1000), events: make(chan Event, 1000)}
	l.current.Store(func(context.Context, string, string, string) error { return nil })
	l.write("members: [{glob: '[abc].yml', vars: {password: ((password))}}]\n")
	l.fleet = l.read("hush-hush")
	ctx, run := guard.Begin(t.Context())
	l.ctx = ctx
	t.Cleanup(func() {
		if p := run.Panic(); p != nil {
			t.Errorf("%v\n%s", p, p.Stack)
		}
	})
	return l
}

func (l *lab) write(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) read(password string) *fleet.Fleet {
	l.t.Helper()
	f, err := fleet.Read(l.t.Context(), l.path, document.Options{Vars: []string{"password=" + password}}, fleet.Outside{})
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func labKey() Key { return Key("the key of the lab") }

func (l *lab) options(user string) Options {
	dead := func() time.Duration {
		if l.dead.Load() {
			return 0
		}
		return deadAfter
	}
	return Options{Database: l.url, Fleet: l.path, Key: labKey(), By: state.Holder{User: user, Host: "h1", PID: 7, Command: "fleet deploy", Since: time.Now()}, dead: dead}
}

// coordinate returns a coordinator that reports to l.progress.
func (l *lab) coordinate(user string) *Coordinator {
	l.t.Helper()
	return l.begin(l.options(user))
}

// busy returns a coordinator that reports often.
func (l *lab) busy() *Coordinator {
	l.t.Helper()
	opts := l.options("anna")
	opts.beats = 100 * time.Millisecond
	return l.begin(opts)
}

func (l *lab) begin(opts Options) *Coordinator {
	l.t.Helper()
	c, err := Coordinate(l.ctx, opts)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Hands(func(p rollout.Progress) { l.progress <- p })
	return c
}

func (l *lab) task(name string) rollout.Task {
	i := slices.IndexFunc(l.fleet.Members, func(m fleet.Member) bool { return m.Name == name })
	return rollout.Task{Member: l.fleet.Members[i], Action: fleet.UpdateStrategy, Logs: l.dir, Run: "r1"}
}

// work starts a worker; end ends it like the first Ctrl-C.
func (l *lab) work(host, password string, urgent <-chan struct{}) (end func()) {
	l.t.Helper()
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	ended := guard.Start(ctx, func() error {
		return Run(ctx, Work{
			Database: l.url, Width: 2, By: state.Holder{User: "u", Host: host, PID: os.Getpid()},
			Program: rollout.Program{Self: self, Env: append(os.Environ(), "QUEUE_TEST_MEMBER="+l.dir)},
			Read: func(path string) (*fleet.Fleet, error) {
				return fleet.Read(ctx, path, document.Options{Vars: []string{"password=" + password}}, fleet.Outside{})
			},
			Key: labKey(),
			Current: func(ctx context.Context, fleet, run, member string) error {
				return l.current.Load().(func(context.Context, string, string, string) error)(ctx, fleet, run, member)
			},
			Redact: func(text string) string { return strings.ReplaceAll(text, "hush-hush", "xxx") },
			Report: func(e Event) { l.events <- e },
			Urgent: urgent,
		})
	})
	return func() {
		if l.t.Failed() {
			l.release("a", "b", "c") // the worker waits for its members
		}
		cancel()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	}
}

// next returns the next progress that matches.
func (l *lab) next(what string, wanted func(rollout.Progress) bool) rollout.Progress {
	l.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case p := <-l.progress:
			l.seen = append(l.seen, p)
			if wanted(p) {
				return p
			}
		case <-late:
			l.t.Fatalf("nothing was told of: %s, but of:%s", what, l.history())
		}
	}
}

// history returns all progress in order.
func (l *lab) history() string {
	var text strings.Builder
	for _, p := range l.seen {
		fmt.Fprintf(&text, "\n%s %s: step %q, notice %q, %v", p.At.Format(time.StampMilli), p.Member, p.Step, p.Notice, p.Err)
		if p.Ended != nil {
			fmt.Fprintf(&text, ", ended %+v", *p.Ended)
		}
	}
	return text.String()
}

// step waits until each of the members has begun a step, in any order.
func (l *lab) step(names ...string) {
	l.t.Helper()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	l.next("a step of "+strings.Join(names, " and "), func(p rollout.Progress) bool {
		if p.Step != "" {
			delete(left, p.Member)
		}
		return len(left) == 0
	})
}

func (l *lab) outcome(name string) rollout.Outcome {
	l.t.Helper()
	return *l.next("the end of "+name, func(p rollout.Progress) bool { return p.Member == name && p.Ended != nil }).Ended
}

func (l *lab) notice(words string) {
	l.t.Helper()
	l.next("the notice "+words, func(p rollout.Progress) bool { return strings.Contains(p.Notice, words) })
}

// event returns the next event of a worker with one of the statuses.
func (l *lab) event(statuses ...string) Event {
	l.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case e := <-l.events:
			if slices.Contains(statuses, e.Status) {
				return e
			}
		case <-late:
			l.t.Fatalf("no worker reported %s", strings.Join(statuses, " or "))
		}
	}
}

// release lets a member end.
func (l *lab) release(names ...string) {
	l.t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(l.dir, name+".go"), nil, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

// starts returns the command lines of a member's starts.
func (l *lab) starts(name string) []string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name+".starts"))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// dies makes the worker of every open task look dead, until live is called.
func (l *lab) dies() (live func()) {
	l.t.Helper()
	postgrestest.Exec(l.t, l.url, "UPDATE "+schema+".tasks SET worker = 'gone', beat = now() - interval '1 hour' WHERE ended IS NULL AND worker IS NOT NULL")
	l.dead.Store(true)
	return func() { l.dead.Store(false) }
}

// start starts members.
func (l *lab) start(c *Coordinator, names ...string) {
	l.t.Helper()
	for _, name := range names {
		if err := c.Start(l.ctx, l.task(name)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestQueue(t *testing.T) {
	server := postgrestest.Start(t)
	tables := server.Database(t)
	db, err := open(t.Context(), tables)
	if err != nil {
		t.Fatal(err)
	}
	db.close()
	for name, test := range map[string]func(*testing.T, *lab){
		"two workers":                testTwoWorkers,
		"a worker is lost":           testLost,
		"a worker returns too late":  testFencing,
		"two coordinators":           testTwoCoordinators,
		"a coordinator is replaced":  testTakenOver,
		"the next coordinator":       testNextCoordinator,
		"changed between two":        testChangedMeanwhile,
		"nobody has taken it":        testWithdrawn,
		"another run":                testOtherRun,
		"interrupted members":        testInterrupted,
		"a worker leaves":            testLeaves,
		"a worker leaves at once":    testLeavesAtOnce,
		"River has lost a job":       testJobGone,
		"other files or variables":   testDigest,
		"no coordinator, no start":   testNoCoordinator,
		"tables of another version":  testFormat,
		"what the database contains": testNoSecrets,
		"forged rows":                testForged,
		"flags of a coordinator":     testFlags,
		"rows of an earlier time":    testReplayed,
		"a forged end":               testForgedEnd,
		"answers that are lost":      testLostAnswers,
		"what a worker keeps":        testKeeps,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(t, newLab(t, server.Copy(t, tables)))
		})
	}
	t.Run("the-server-stops", func(t *testing.T) {
		t.Parallel()
		own := postgrestest.Start(t)
		testServerStops(t, newLab(t, own.Database(t)), own)
	})
}

func testTwoWorkers(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	defer l.work("h1", "hush-hush", nil)()
	defer l.work("h2", "hush-hush", nil)()
	l.start(c, "a", "b", "c")
	l.release("a", "b", "c")
	hosts := map[string]bool{}
	for range 3 {
		p := l.next("an end", func(p rollout.Progress) bool { return p.Ended != nil })
		if p.Ended.Verdict != schedule.Done {
			t.Errorf("%s: %+v", p.Member, p.Ended)
		}
		hosts[p.Machine] = true
	}
	if hosts[""] {
		t.Error("nobody knows where a member ran")
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := len(l.starts(name)); n != 1 {
			t.Errorf("%s was started %d times", name, n)
		}
	}
	jobs, err := c.client.JobList(l.ctx, river.NewJobListParams())
	if err != nil || len(jobs.Jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs.Jobs), err)
	}
	for _, j := range jobs.Jobs {
		if j.State != "completed" {
			t.Errorf("the job %s is %s", j.EncodedArgs, j.State)
		}
	}
}

// The next start of a member waits for processes that the lost worker left running.
func testLost(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a")
	l.step("a")
	live := l.dies()
	if o := l.outcome("a"); !o.Lost || !strings.Contains(o.Error, "h1 does not report") {
		t.Errorf("%+v", o)
	}
	live()
	task := l.task("a")
	task.Killed = true
	if err := c.Start(l.ctx, task); err != nil {
		t.Fatal(err)
	}
	l.release("a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	end()
	if list := l.starts("a"); len(list) != 2 || strings.Contains(list[0], "--lock-wait") || !strings.Contains(list[1], "--lock-wait=2h") {
		t.Errorf("%q", list)
	}
}

// Reports of a worker about a member that it has lost change nothing.
func testFencing(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a")
	l.step("a")
	l.dies()
	if o := l.outcome("a"); !o.Lost {
		t.Fatalf("%+v", o)
	}
	l.release("a")
	if e := l.event(Lost); e.Member != "a" || !strings.Contains(e.Reason, "given to another") {
		t.Errorf("%+v", e)
	}
	end()
	var outcomes []string
	rows, err := c.db.pool.Query(l.ctx, "SELECT outcome->>'verdict' || attempt FROM "+schema+".tasks")
	if err == nil {
		outcomes, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || !slices.Equal(outcomes, []string{"interrupted1"}) {
		t.Errorf("%q, %v", outcomes, err)
	}
}

func testTwoCoordinators(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	_, err := Coordinate(l.ctx, l.options("ben"))
	var locked *file.LockedError
	if !errors.As(err, &locked) || locked.Holder.User != "anna" || !strings.Contains(err.Error(), "anna@h1") {
		t.Errorf("%v", err)
	}
	other := l.options("ben")
	other.Fleet += ".other"
	d, err := Coordinate(l.ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	c.Close()
	l.coordinate("ben").Close()
}

// A coordinator whose connection broke ends if another one has begun since.
func testTakenOver(t *testing.T, l *lab) {
	c := l.busy()
	defer c.Close()
	postgrestest.Exec(t, l.url, "UPDATE "+schema+".coordinators SET epoch = epoch + 1, holder = '{\"user\":\"ben\",\"host\":\"h2\"}'; SELECT pg_terminate_backend(backend) FROM "+schema+".coordinators")
	p := l.next("the end", func(p rollout.Progress) bool { return p.Err != nil })
	var taken *TakenOverError
	if !errors.As(p.Err, &taken) || taken.Holder.User != "ben" {
		t.Errorf("%v", p.Err)
	}
	// A later listener gets the error, too.
	c.Hands(func(p rollout.Progress) { l.progress <- p })
	l.next("the end", func(p rollout.Progress) bool { return p.Err != nil })
}

// A member that runs for the same run is not started a second time, whoever asks.
func testNextCoordinator(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a")
	l.step("a")
	c.Close()
	c = l.coordinate("anna")
	defer c.Close()
	task := l.task("a")
	task.Killed = true
	if err := c.Start(l.ctx, task); err != nil {
		t.Fatal(err)
	}
	l.step("a")
	l.release("a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	end()
	if list := l.starts("a"); len(list) != 1 {
		t.Errorf("%q", list)
	}
}

// The result of a start with an older manifest does not count for the present manifest.
func testChangedMeanwhile(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer l.work("h1", "hush-hush", nil)()
	l.start(c, "a")
	l.step("a")
	c.Close()
	if err := os.WriteFile(filepath.Join(l.dir, "a.yml"), []byte("name: changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = l.coordinate("anna")
	defer c.Close()
	l.start(c, "a")
	l.notice("a is still running on h1 (with other files or variables)")
	l.release("a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	if list := l.starts("a"); len(list) != 2 {
		t.Errorf("%q", list)
	}
}

func testWithdrawn(t *testing.T, l *lab) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.ctx = ctx
	c := l.coordinate("anna")
	defer c.Close()
	l.start(c, "a", "b")
	l.notice("No worker is running")
	c.Interrupt("a")
	if o := l.outcome("a"); o.Verdict != schedule.Waiting {
		t.Errorf("%+v", o)
	}
	cancel()
	if o := l.outcome("b"); o.Verdict != schedule.Waiting {
		t.Errorf("%+v", o)
	}
	l.start(c, "c")
	if o := l.outcome("c"); o.Verdict != schedule.Waiting {
		t.Errorf("%+v", o)
	}
	jobs, err := c.client.JobList(context.WithoutCancel(ctx), river.NewJobListParams())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Jobs {
		if j.State != "cancelled" {
			t.Errorf("%s: %s", j.EncodedArgs, j.State)
		}
	}
}

// The coordinator waits for a member that an earlier run started, and withdraws starts
// of that run that no worker has taken.
func testOtherRun(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a")
	l.step("a")
	c.Close()
	c = l.coordinate("ben")
	defer c.Close()
	task := l.task("a")
	task.Run = "r2"
	if err := c.Start(l.ctx, task); err != nil {
		t.Fatal(err)
	}
	l.notice("a is still running on h1")
	l.release("a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	end()
	if list := l.starts("a"); len(list) != 2 {
		t.Errorf("%q", list)
	}
}

func testInterrupted(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	defer end()
	l.start(c, "a", "b")
	l.step("a", "b")
	c.Interrupt("b")
	if o := l.outcome("b"); o.Verdict == schedule.Done || o.Lost {
		t.Errorf("%+v", o)
	}
	c.Interrupt("")
	if o := l.outcome("a"); o.Verdict == schedule.Done || o.Lost {
		t.Errorf("%+v", o)
	}
}

// A worker that ends takes no more members, and waits for its members.
func testLeaves(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a")
	l.step("a")
	left := make(chan struct{})
	go func() { defer close(left); end() }()
	l.event(Noticed)
	l.start(c, "b")
	l.release("a", "b")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	<-left
	defer l.work("h2", "hush-hush", nil)()
	if p := l.next("the end of b", func(p rollout.Progress) bool { return p.Ended != nil }); p.Ended.Verdict != schedule.Done || p.Machine != "h2" {
		t.Errorf("%+v on %s", p.Ended, p.Machine)
	}
}

// A worker that must end soon leaves its members to others.
func testLeavesAtOnce(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	urgent := make(chan struct{})
	end := l.work("h1", "hush-hush", urgent)
	l.start(c, "a")
	l.step("a")
	close(urgent)
	end()
	if o := l.outcome("a"); !o.Lost || !strings.Contains(o.Error, "its worker was asked to end") {
		t.Errorf("%+v", o)
	}
}

// A start whose job River has lost is queued again.
func testJobGone(t *testing.T, l *lab) {
	c := l.busy()
	defer c.Close()
	l.start(c, "a")
	l.notice("No worker is running")
	postgrestest.Exec(t, l.url, "UPDATE "+schema+".river_job SET state = 'discarded', finalized_at = now()")
	if o := l.outcome("a"); !o.Lost || !strings.Contains(o.Error, "before it was started") {
		t.Errorf("%+v", o)
	}
	defer l.work("h1", "hush-hush", nil)()
	l.release("a")
	l.start(c, "a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
}

func testDigest(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	if err := os.WriteFile(filepath.Join(l.dir, "a.yml"), []byte("name: before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	early := l.task("a")
	salt := newSalt()
	one, err := digest(early.Member, salt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "a.yml"), []byte("name: after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if two, err := digest(early.Member, salt); err != nil || same(one, two) {
		t.Errorf("the digest ignores the manifest, %v", err)
	}
	l.write("members: [{glob: '[ac].yml', vars: {password: ((password))}}]\n")
	l.start(c, "b")
	if o := l.outcome("b"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "the worker on h1") || !strings.Contains(o.Error, "no such member") {
		t.Errorf("%+v", o)
	}
	l.write("members: [{glob: '[abc].yml', vars: {password: ((password)), size: 1}}]\n")
	l.start(c, "a")
	if o := l.outcome("a"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "other files or variables") {
		t.Errorf("%+v", o)
	}
	l.write("members: [{glob: '[abc].yml', vars: {password: ((password))}, labels: 5}]\n")
	l.start(c, "a")
	if o := l.outcome("a"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "cannot read the fleet file") || o.Hint == "" {
		t.Errorf("%+v", o)
	}
	l.write("members: [{glob: '[abc].yml', vars: {password: ((password))}}]\n")
	end()
	defer l.work("h2", "another", nil)()
	l.start(c, "c")
	if o := l.outcome("c"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "other files or variables") {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"a", "b", "c"} {
		if list := l.starts(name); list[0] != "" {
			t.Errorf("%s was started: %q", name, list)
		}
	}
}

// A worker does not start members for a coordinator that was killed.
func testNoCoordinator(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	l.start(c, "a")
	l.notice("No worker is running")
	c.Close()
	postgrestest.Exec(t, l.url, "UPDATE "+schema+".coordinators SET beat = now() - interval '1 hour'")
	end := l.work("h1", "hush-hush", nil)
	conn, err := pgx.Connect(l.ctx, l.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(l.ctx)
	if err := wait.Poll(l.ctx, 50*time.Millisecond, func() (snoozed bool, err error) {
		err = conn.QueryRow(l.ctx, "SELECT count(*) > 0 FROM "+schema+".river_job WHERE state = 'scheduled'").Scan(&snoozed)
		return snoozed, err
	}); err != nil {
		t.Fatal(err)
	}
	if list := l.starts("a"); list[0] != "" {
		t.Errorf("%q", list)
	}
	c = l.coordinate("anna")
	defer c.Close()
	l.start(c, "a")
	l.release("a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	end()
}

func testFormat(t *testing.T, l *lab) {
	l.coordinate("anna").Close()
	postgrestest.Exec(t, l.url, fmt.Sprintf("UPDATE %s.format SET format = %d", schema, Format+1))
	if _, err := Coordinate(l.ctx, l.options("anna")); err == nil || !strings.Contains(err.Error(), "newer version of bootstrap") {
		t.Errorf("%v", err)
	}
	// Another version of River with other tables needs a new number of the format.
	d, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Logger: silent()})
	if err != nil {
		t.Fatal(err)
	}
	all := d.AllVersions()
	if last := all[len(all)-1].Version; last != riverMigration {
		t.Errorf("River's last migration is %d: raise format and riverMigration", last)
	}
	refused := l.options("anna")
	refused.Database = strings.Replace(l.url, "bootstrap@", "nobody:pass%2Fword@", 1)
	if _, err := Coordinate(l.ctx, refused); err == nil || strings.Contains(err.Error(), "pass") || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
	postgrestest.Exec(t, l.url, "CREATE ROLE guest LOGIN; DROP SCHEMA "+schema+" CASCADE")
	refused.Database = strings.Replace(l.url, "bootstrap@", "guest@", 1)
	if _, err := Coordinate(l.ctx, refused); err == nil || !strings.Contains(err.Error(), `CREATE SCHEMA bootstrap_fleet AUTHORIZATION "guest"`) {
		t.Errorf("%v", err)
	}
	refused.Database = "/tmp/ledger.db"
	if _, err := Coordinate(l.ctx, refused); err == nil || !strings.Contains(err.Error(), "PostgreSQL") {
		t.Errorf("%v", err)
	}
}

func testNoSecrets(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	l.start(c, "a")
	l.notice("No worker is running")
	rows, err := c.db.pool.Query(l.ctx, "SELECT t::text FROM "+schema+".tasks t UNION ALL SELECT j::text FROM "+schema+".river_job j")
	var all []string
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(all) != 2 || strings.Contains(strings.Join(all, "\n"), "hush-hush") {
		t.Errorf("%q, %v", all, err)
	}
}

// A connection that breaks after a commit, before its answer, changes nothing: each
// member is started exactly once, and by the right worker.
func testLostAnswers(t *testing.T, l *lab) {
	server := l.url
	var through *proxy
	through, l.url = newProxy(t, server)
	c := l.coordinate("anna")
	defer c.Close()
	handed := through.breakAfter("INSERT INTO "+schema+".tasks", "commit")
	l.start(c, "a")
	<-handed
	claimed := through.breakAfter("SET worker = $5", "")
	defer l.work("h1", "hush-hush", nil)()
	<-claimed
	l.step("a")
	recorded := through.breakAfter("SET ended = now(), outcome = $6", "commit")
	l.release("a")
	<-recorded
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	if e := l.event(Ended, Lost); e.Status != Ended {
		t.Errorf("%+v", e)
	}
	if list := l.starts("a"); len(list) != 1 {
		t.Errorf("%q", list)
	}
}

// A worker that is stopped before it knows that a start is its own does not keep that
// start just because its other members are running.
func testKeeps(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	l.start(c, "a", "b")
	l.notice("No worker is running")
	c.Close()
	postgrestest.Exec(t, l.url, "UPDATE "+schema+".tasks SET worker = 'w', beat = now() - interval '1 hour'")
	db, err := open(l.ctx, l.url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	a := job{Fleet: l.path, Run: "r1", Member: "a", Attempt: 1}
	r := &running{job: a, lost: make(chan struct{})}
	w := &worker{db: db, id: "w", running: map[job]*running{a: r}}
	if err := w.keep(l.ctx); err != nil || r.isGone() {
		t.Errorf("%v, lost: %v", err, r.isGone())
	}
	var kept []string
	rows, err := db.pool.Query(l.ctx, "SELECT member FROM "+schema+".tasks WHERE beat > now() - interval '1 minute'")
	if err == nil {
		kept, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || !slices.Equal(kept, []string{"a"}) {
		t.Errorf("%q, %v", kept, err)
	}
}

// Members continue during an outage of the server, and do not count as lost when it
// returns.
func testServerStops(t *testing.T, l *lab, server *postgrestest.Server) {
	c := l.coordinate("anna")
	defer c.Close()
	end := l.work("h1", "hush-hush", nil)
	l.start(c, "a", "b")
	l.step("a", "b")
	server.Stop()
	l.notice("Cannot reach the database")
	l.event(Noticed)
	l.release("a")
	l.start(c, "c")
	server.Restart(t)
	l.notice("answers again")
	l.release("b", "c")
	left := map[string]bool{"a": true, "b": true, "c": true}
	for len(left) > 0 {
		p := l.next("an end", func(p rollout.Progress) bool { return p.Ended != nil })
		if p.Ended.Verdict != schedule.Done {
			t.Errorf("%s: %+v", p.Member, p.Ended)
		}
		delete(left, p.Member)
	}
	end()
	for _, name := range []string{"a", "b", "c"} {
		if n := len(l.starts(name)); n != 1 {
			t.Errorf("%s was started %d times", name, n)
		}
	}
}
