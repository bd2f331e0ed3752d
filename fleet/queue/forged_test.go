package queue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/postgrestest"
)

// No row that others write to the database makes a worker start a program.
func testForged(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	l.start(c, "a", "b")
	l.notice("No worker is running")
	postgrestest.Exec(t, l.url, "UPDATE "+schema+".tasks SET flags = '{--ruby=/bin/evil}' WHERE member = 'a'; UPDATE "+schema+".tasks SET action = 'recreate' WHERE member = 'b'")
	defer l.work("h1", "hush-hush", nil)()
	for range 2 {
		p := l.next("an end", func(p rollout.Progress) bool { return p.Ended != nil })
		if o := p.Ended; o.Verdict != schedule.Failed || !strings.Contains(o.Error, "refuses the start of "+p.Member+": no coordinator with its key has written it") || !strings.Contains(o.Hint, "fleet.key") {
			t.Errorf("%+v", o)
		}
	}
	// Somebody adds a start of a member with another fleet file, and its job.
	postgrestest.Exec(t, l.url, "INSERT INTO "+schema+".tasks (fleet, run, member, attempt, job, action, watch, waits, logs, flags, salt, digest, queued) "+
		"SELECT fleet, run, 'c', attempt, job, action, watch, waits, logs, flags, salt, digest, now() FROM "+schema+".tasks WHERE member = 'a'; "+
		again("a", `, args = jsonb_set(args, '{member}', '"c"'), unique_key = NULL`))
	for e := l.event(Ended); e.Member != "c"; e = l.event(Ended) {
	}
	for _, name := range []string{"a", "b", "c"} {
		if list := l.starts(name); list[0] != "" {
			t.Errorf("%s was started: %q", name, list)
		}
	}
	// The worker continues.
	l.release("b")
	l.start(c, "b")
	if o := l.outcome("b"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
}

// again returns a statement that makes River hand out the job of a member again.
func again(member, change string) string {
	return "UPDATE " + schema + ".river_job SET state = 'available', finalized_at = NULL, attempt = 0, scheduled_at = now()" + change + " WHERE args->>'member' = '" + member + "'"
}

// A worker does not obey flags that name a program, even if the coordinator has the
// key.
func testFlags(t *testing.T, l *lab) {
	opts := l.options("anna")
	opts.Flags = []string{"--fix", "--ruby=/bin/other", "--var-source=exec=/bin/other", "--yes"}
	c := l.begin(opts)
	defer c.Close()
	defer l.work("h1", "hush-hush", nil)()
	l.release("a", "b")
	l.start(c, "a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	if list := l.starts("a"); strings.Contains(list[0], "/bin/other") || !strings.Contains(list[0], "--fix --yes") {
		t.Errorf("%q", list)
	}
	c.flags = append(c.flags, "--var-source=exec=/bin/other") // another version might send this flag
	l.start(c, "b")
	if o := l.outcome("b"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "may not send the flag --var-source") {
		t.Errorf("%+v", o)
	}
	if list := l.starts("b"); list[0] != "" {
		t.Errorf("%q", list)
	}
}

// A row of an earlier start has a valid proof, but workers refuse it.
func testReplayed(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	defer l.work("h1", "hush-hush", nil)()
	l.release("a", "b")
	l.start(c, "a")
	if o := l.outcome("a"); o.Verdict != schedule.Done {
		t.Errorf("%+v", o)
	}
	reopen := "UPDATE " + schema + ".tasks SET ended = NULL, outcome = NULL, worker = NULL, beat = NULL WHERE member = 'a'; " + again("a", "")
	postgrestest.Exec(t, l.url, reopen)
	refused := func(words string) {
		t.Helper()
		for {
			e := l.event(Ended)
			if e.Verdict == schedule.Failed {
				if e.Member != "a" || !strings.Contains(e.Reason, words) {
					t.Errorf("%+v", e)
				}
				return
			}
		}
	}
	refused("its start number 1 was carried out before")
	// The same if the logs of that run, which list the starts, were removed.
	marks, err := filepath.Glob(filepath.Join(l.dir, "*.taken"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	if err := os.Remove(marks[0]); err != nil {
		t.Fatal(err)
	}
	l.current.Store(func(_ context.Context, _, run, _ string) error {
		return errors.New("the run " + run + " is not running")
	})
	postgrestest.Exec(t, l.url, reopen)
	refused("the run r1 is not running")
	if list := l.starts("a"); len(list) != 1 {
		t.Errorf("%q", list)
	}
}

// The coordinator does not believe a member's end that others wrote.
func testForgedEnd(t *testing.T, l *lab) {
	c := l.coordinate("anna")
	defer c.Close()
	defer l.work("h1", "hush-hush", nil)()
	l.start(c, "a")
	l.step("a")
	postgrestest.Exec(t, l.url, `UPDATE `+schema+`.tasks SET ended = now(), outcome = '{"verdict": "done", "exit_code": 0}'`)
	if o := l.outcome("a"); o.Verdict != schedule.Failed || !strings.Contains(o.Error, "no worker with the key") {
		t.Errorf("%+v", o)
	}
	l.release("a")
}

func TestKey(t *testing.T) {
	home := filepath.Join(t.TempDir(), ".bosh")
	one, err := ReadKey(home)
	if err != nil || len(one) == 0 {
		t.Fatal(one, err)
	}
	two, err := ReadKey(home)
	if err != nil || string(one) != string(two) {
		t.Fatal("another key", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
	if err := os.WriteFile(KeyPath(home), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(home); err == nil || !strings.Contains(err.Error(), "it is damaged") {
		t.Error(err)
	}
	if err := os.Chmod(KeyPath(home), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(home); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	if Key(nil).ofStart(job{}, taken{}) != nil || holds(nil, nil) {
		t.Error("without a key everything is proven")
	}
}
