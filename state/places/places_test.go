package places

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/deployment"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// conformance is a case of the suite.
type conformance struct {
	name string
	run  func(*testing.T, *world)
	// without has the reasons why places do not have the case.
	without map[string]string
}

// Reasons why a place does not have a case.
var (
	noServer = map[string]string{"folder": "a folder has no server"}
	noFolder = map[string]string{"folder": "the kernel ends the lock with its process"}
	onlyWeb  = map[string]string{"folder": "a folder has no server", "s3": "requests are signed", "postgres": "a database does not do that"}
	onlyHTTP = map[string]string{"folder": "a folder has no server", "postgres": "a database does not do that"}
	noProof  = map[string]string{"folder": "who may write to a folder is trusted"}
)

// cases are the cases of the suite.
var cases = []conformance{
	{name: "two machines hand over", run: handOver},
	{name: "two writers", run: twoWriters},
	{name: "lock", run: respectsLock},
	{name: "wait for the lock", run: waits},
	{name: "killed holder", run: killedHolder},
	{name: "lost lock", run: lostLock, without: noFolder},
	{name: "expired lease", run: expiredLease, without: noFolder},
	{name: "lock of an older program", run: olderLock},
	{name: "damaged lock", run: damagedLock},
	{name: "kill at every request or write", run: killEverywhere},
	{name: "lost answers", run: lostAnswers, without: noServer},
	{name: "wrong answers", run: failedAnswers, without: onlyHTTP},
	{name: "lost answer, then outage", run: lostThenDown, without: noServer},
	{name: "cut requests", run: cutRequests, without: noServer},
	{name: "outage", run: outage, without: noServer},
	{name: "slow server", run: slowServer, without: noServer},
	{name: "server that stores nothing", run: lyingServer, without: onlyHTTP},
	{name: "server without conditions", run: carelessServer, without: onlyWeb},
	{name: "full disk", run: fullDisk},
	{name: "clocks that jump", run: clocksJump},
	{name: "emptied state", run: emptied},
	{name: "truncated state", run: truncated},
	{name: "exchanged state", run: exchanged, without: noProof},
	{name: "state of another key", run: foreign, without: noProof},
	{name: "older state", run: rolledBack, without: noProof},
	{name: "older state, new machine", run: rolledBackUnseen, without: noProof},
	{name: "missing state", run: missing},
	{name: "missing everything", run: emptiedPlace, without: noProof},
	{name: "damaged version", run: damagedVersion},
	{name: "changes of two machines", run: conflict, without: map[string]string{"folder": "there is one file"}},
	{name: "versions", run: keepsVersions},
	{name: "restore", run: restore},
	{name: "forget", run: forget},
	{name: "record: two machines", run: recordHandOver, without: noServer},
	{name: "record: lost lock", run: recordLostLock, without: noServer},
	{name: "record: missing", run: recordMissing, without: noServer},
	{name: "record: outage", run: recordOutage, without: noServer},
	{name: "failing move", run: failingMove, without: noServer},
}

// TestPlaces runs every case in every place, and prints the table.
func TestPlaces(t *testing.T) {
	var mu sync.Mutex
	table := map[string]map[string]string{}
	t.Run("all", func(t *testing.T) {
		for _, kind := range placeNames {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				var s servers
				s.start(t, kind)
				for _, c := range cases {
					if c.without[kind] != "" {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						defer func() {
							mu.Lock()
							defer mu.Unlock()
							if table[c.name] == nil {
								table[c.name] = map[string]string{}
							}
							table[c.name][kind] = map[bool]string{true: "FAILS", false: "passes"}[t.Failed()]
						}()
						c.run(t, s.world(t, kind, c.name))
					})
				}
			})
		}
	})
	var text strings.Builder
	row := func(name string, cell func(kind string) string) {
		fmt.Fprintf(&text, "\n%-30s", name)
		for _, kind := range placeNames {
			fmt.Fprintf(&text, " %-11s", cell(kind))
		}
	}
	row("", func(kind string) string { return kind })
	for _, c := range cases {
		row(c.name, func(kind string) string {
			if c.without[kind] != "" {
				return "-"
			}
			return table[c.name][kind]
		})
	}
	t.Log(text.String())
}

// TestMain runs the tests, or a run that a test kills or whose disk is full.
func TestMain(m *testing.M) {
	os.Setenv("AWS_ACCESS_KEY_ID", teamtest.KeyID)
	os.Setenv("AWS_SECRET_ACCESS_KEY", teamtest.Secret)
	if what := os.Getenv("PLACES_CHILD"); what != "" {
		os.Exit(child(what))
	}
	os.Exit(m.Run())
}

func handOver(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	s := ann.open()
	ann.set(s, "vm-1")
	id := s.Get().InstallationID
	s.Close()
	s = bob.open()
	if got := s.Get(); got.CurrentVMCID != "vm-1" || got.InstallationID != id {
		t.Fatalf("bob has %+v", got)
	}
	bob.set(s, "vm-2")
	s.Close()
	s = ann.open()
	if got := s.Get(); got.CurrentVMCID != "vm-2" || got.InstallationID != id {
		t.Fatalf("ann has %+v", got)
	}
	ann.set(s, "")
	s.Close()

	// vm-1 and vm-2 are in old versions on both machines, but they were deleted.
	s = bob.open()
	check(t, s.Remove())
	s.Close()
	if left := stateLeft(t, w.raw); len(left) > 0 {
		t.Errorf("the place still has %v", left)
	}
	s = ann.open()
	if s.Found() {
		t.Errorf("ann still has %+v", s.Get())
	}
	s.Close()
	ann.deploy("vm-3") // the next deployment
	bob.expect("vm-3")
	if errs := slices.Concat(ann.warned, bob.warned); len(errs) > 0 {
		t.Errorf("warnings: %v", errs)
	}
}

// Each writer continues what the other has written, and nothing is lost.
func twoWriters(t *testing.T, w *world) {
	const rounds = 4
	machines := []*machine{w.machine("ann"), w.machine("bob")}
	var wg sync.WaitGroup
	for _, m := range machines {
		m.ttl, m.renew, m.wait = 0, 0, 10*time.Minute
		wg.Go(func() {
			for range rounds {
				s, err := file.Open(context.WithoutCancel(t.Context()), m.path(), m.options())
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				_, _ = fmt.Sscanf(s.Get().CurrentVMCID, "vm-%d", &n) // 0 at first
				if err := errors.Join(s.Update(toVM(fmt.Sprintf("vm-%d", n+1))), s.Unsent()); err != nil {
					t.Error(err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	w.machine("cid").expect(fmt.Sprintf("vm-%d", 2*rounds))
}

// readVersions returns the versions that a machine can read.
func (m *machine) readVersions(t *testing.T) []file.Version {
	t.Helper()
	opts := m.options()
	if opts.Team != nil {
		check(t, file.Refresh(t.Context(), opts.Team))
		check(t, file.PullHistory(t.Context(), opts.Team))
	}
	list, err := file.Versions(m.path())
	check(t, err)
	return list
}

// restore restores a version of the state.
func (m *machine) restore(t *testing.T, serial int, force bool) error {
	t.Helper()
	opts := m.options()
	_, err := deployment.Restore(t.Context(), deployment.Place{Name: m.name(opts), Path: m.path(), Opts: opts, One: true}, serial, force)
	return err
}

// isDoubt reports whether a document was refused because it is not trusted.
func isDoubt(err error) bool {
	_, doubt := errors.AsType[*team.ProofError](err)
	return doubt
}
