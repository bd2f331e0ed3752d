package file

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// machine is one machine of a team: its home, and its options for opening the state.
type machine struct {
	t    *testing.T
	home string
	who  string
	url  string
	pid  int
	ttl  time.Duration
}

// givenKey is the state key of the stores.
func givenKey(t *testing.T) team.Given {
	t.Helper()
	given, err := team.ParseGiven(team.Key{1, 2, 3}.Text())
	if err != nil {
		t.Fatal(err)
	}
	return given
}

func (m *machine) options() Options {
	m.t.Helper()
	cfg := team.Config{Holder: state.Holder{User: m.who, Host: "here", PID: m.pid, Command: "deploy", Since: time.Now()}, Getenv: os.Getenv, TTL: m.ttl, Renew: time.Hour, Given: givenKey(m.t)}
	s, err := team.Open(m.t.Context(), m.url, cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(s.Close)
	return Options{Holder: cfg.Holder, Home: m.home, Team: team.CopyOf(m.home, s), Warn: func(err error) { m.t.Errorf("%s was warned: %v", m.who, err) }}
}

func (m *machine) open() *Store {
	m.t.Helper()
	opts := m.options()
	s, err := Open(m.t.Context(), opts.Team.StatePath(), opts)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func team2(t *testing.T) (web *teamtest.Web, ann, bob *machine) {
	web = &teamtest.Web{}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	ann = &machine{t: t, home: t.TempDir(), who: "ann", url: server.URL + "/env", pid: os.Getpid()}
	bob = &machine{t: t, home: t.TempDir(), who: "bob", url: server.URL + "/env", pid: os.Getpid()}
	return web, ann, bob
}

func setVM(cid string) func(*state.State) error {
	return func(st *state.State) error {
		st.CurrentVMCID = cid
		return nil
	}
}

func setTo(t *testing.T, s *Store, cid string) {
	t.Helper()
	if err := errors.Join(s.Update(setVM(cid)), s.Unsent()); err != nil {
		t.Fatal(err)
	}
}

// Two machines hand a deployment over and back, and delete it.
func TestTeamHandsOver(t *testing.T) {
	t.Parallel()
	web, ann, bob := team2(t)
	s := ann.open()
	setTo(t, s, "vm-1")
	id := s.Get().InstallationID
	s.Close()

	s = bob.open()
	if got := s.Get(); got.CurrentVMCID != "vm-1" || got.InstallationID != id {
		t.Fatalf("bob has %+v", got)
	}
	setTo(t, s, "vm-2")
	s.Close()

	s = ann.open()
	if got := s.Get(); got.CurrentVMCID != "vm-2" {
		t.Fatalf("ann has %+v", got)
	}
	setTo(t, s, "")
	s.Close()

	// vm-1 and vm-2 are in old versions on both machines, but they were deleted.
	s = bob.open()
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if names := web.Names(); len(names) > 0 {
		t.Errorf("the store still has %v", names)
	}
	s = ann.open()
	if s.Found() {
		t.Errorf("ann still has %+v", s.Get())
	}
	s.Close()
}

func TestTeamLocks(t *testing.T) {
	t.Parallel()
	_, ann, bob := team2(t)
	s := ann.open()
	opts := bob.options()
	_, err := Open(t.Context(), opts.Team.StatePath(), opts)
	if held, ok := errors.AsType[*team.HeldError](err); !ok || held.Holder.User != "ann" {
		t.Fatalf("%v", err)
	}
	setTo(t, s, "vm-1")
	s.Close()
	bob.open().Close()
}

// A store that fails during a run loses nothing: the next run on this machine writes
// the changes there.
func TestTeamStoreFails(t *testing.T) {
	t.Parallel()
	web, ann, bob := team2(t)
	s := ann.open()
	setTo(t, s, "vm-1")
	var down atomic.Bool
	web.Before = func(*http.Request) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	down.Store(true)
	if err := s.Update(setVM("vm-2")); err != nil {
		t.Fatal(err)
	}
	unsent, ok := errors.AsType[*UnsentError](s.Unsent())
	if !ok || !strings.Contains(unsent.Error(), "503") || !strings.Contains(unsent.Error(), unsent.Path) {
		t.Fatalf("%v", s.Unsent())
	}
	s.opts.Warn = nil // it warns that the lock stays
	s.Close()
	down.Store(false)

	opts := bob.options() // The same process: it sees that ann's run has not ended.
	_, err := Open(t.Context(), opts.Team.StatePath(), opts)
	if _, ok := errors.AsType[*team.HeldError](err); !ok {
		t.Fatalf("%v", err)
	}
	opts = ann.options()
	held, err := opts.Team.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	if err := opts.Team.Break(t.Context(), held.Fence); err != nil {
		t.Fatal(err)
	}
	if did, err := Push(t.Context(), false, ann.options()); err != nil || !did {
		t.Fatal(did, err)
	}
	s = bob.open()
	if got := s.Get(); got.CurrentVMCID != "vm-2" {
		t.Errorf("bob has %+v", got)
	}
	s.Close()
}

// Two machines have changed the same version: neither is overwritten.
func TestTeamConflict(t *testing.T) {
	t.Parallel()
	web, ann, bob := team2(t)
	s := ann.open()
	setTo(t, s, "vm-1")
	s.Close()
	s = ann.open()
	web.Before = func(r *http.Request) int {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "state.json") {
			return http.StatusForbidden
		}
		return 0
	}
	if err := s.Update(setVM("vm-of-ann")); err != nil || s.Unsent() == nil {
		t.Fatal(err, s.Unsent())
	}
	s.Close()
	web.Before = nil
	s = bob.open()
	setTo(t, s, "vm-of-bob")
	s.Close()

	opts := ann.options()
	_, err := Open(t.Context(), opts.Team.StatePath(), opts)
	if _, ok := errors.AsType[*team.ConflictError](err); !ok {
		t.Fatalf("%v", err)
	}
	if _, err := Push(t.Context(), false, ann.options()); !errors.Is(err, team.ErrChanged) {
		t.Fatalf("%v", err)
	}
	kept, err := Pull(t.Context(), ann.options())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(kept); err != nil || !strings.Contains(string(data), "vm-of-ann") {
		t.Errorf("%s: %v", data, err)
	}
	s = ann.open()
	if got := s.Get(); got.CurrentVMCID != "vm-of-bob" {
		t.Errorf("ann has %+v", got)
	}
	s.Close()
}

// A run whose lease was taken cannot write, also if the next run has changed nothing.
func TestTeamLostLease(t *testing.T) {
	t.Parallel()
	_, ann, bob := team2(t)
	s := ann.open()
	setTo(t, s, "vm-1")
	s.Close()
	ann.pid, ann.ttl = 0, time.Second
	slow := ann.open()
	bob.ttl = time.Minute
	opts := bob.options()
	var next *Store
	deadline := time.Now().Add(time.Minute)
	for {
		var err error
		if next, err = Open(t.Context(), opts.Team.StatePath(), opts); err == nil {
			break
		}
		if _, held := errors.AsType[*team.HeldError](err); !held || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := slow.Update(setVM("vm-late")); err != nil {
		t.Fatal(err)
	}
	if lost, ok := errors.AsType[*team.LostError](slow.Unsent()); !ok || lost.By == nil || lost.By.User != "bob" {
		t.Errorf("%v", slow.Unsent())
	}
	if got := next.Get(); got.CurrentVMCID != "vm-1" {
		t.Errorf("bob has %+v", got)
	}
	slow.Close()
	setTo(t, next, "vm-2")
	next.Close()
}

func TestTeamHistory(t *testing.T) {
	t.Parallel()
	_, ann, bob := team2(t)
	s := bob.open() // the machine has a list of deletions from now on
	setTo(t, s, "vm-of-bob")
	s.Close()
	// There are more versions than a machine keeps as backups: only the history has the
	// deletion of the first resources.
	for _, cid := range []string{"vm-a", "vm-b", "vm-c", "vm-d", "vm-e", "vm-f", "vm-1", "vm-2", "vm-3"} {
		s := ann.open()
		setTo(t, s, cid)
		s.Close()
	}
	opts := bob.options()
	if err := errors.Join(Refresh(t.Context(), opts.Team), PullHistory(t.Context(), opts.Team)); err != nil {
		t.Fatal(err)
	}
	list, err := Versions(opts.Team.StatePath())
	if err != nil || len(list) != 10 || list[2].State.CurrentVMCID != "vm-1" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, v := range list {
		if len(v.Only) > 0 {
			t.Errorf("version %d alone records %v, which ann has deleted", v.Serial, v.Only)
		}
	}
	restored(t, opts.Team.StatePath(), list[1].Serial, bob.options()).Close()
	s = ann.open()
	if got := s.Get(); got.CurrentVMCID != "vm-2" {
		t.Errorf("ann has %+v", got)
	}
	s.Close()
}

func TestTeamDiscard(t *testing.T) {
	t.Parallel()
	web, ann, bob := team2(t)
	opts := bob.options()
	if err := Discard(t.Context(), opts.Team.StatePath(), false, opts); err == nil {
		t.Error("discarded a state that does not exist")
	}
	s := ann.open()
	setTo(t, s, "vm-1")
	s.Close()
	opts = bob.options()
	err := Discard(t.Context(), opts.Team.StatePath(), false, opts)
	if _, owns := errors.AsType[*OwnsError](err); !owns {
		t.Fatalf("%v", err)
	}
	opts = bob.options()
	if err := Discard(t.Context(), opts.Team.StatePath(), true, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(opts.Team.StatePath()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, ok := web.Documents()["env/state.json"]; ok {
		t.Error("the store still has the state")
	}

	// The next deployment at that place has its own serial numbers, and all machines
	// can take its first version.
	s = ann.open()
	if s.Found() {
		t.Errorf("ann still has %+v", s.Get())
	}
	s.Close()
	cleo := &machine{t: t, home: t.TempDir(), who: "cleo", url: ann.url, pid: ann.pid}
	s = cleo.open()
	setTo(t, s, "vm-of-cleo")
	s.Close()
	bob.home = t.TempDir()
	opts = bob.options()
	if err := errors.Join(Refresh(t.Context(), opts.Team), PullHistory(t.Context(), opts.Team)); err != nil {
		t.Fatal(err)
	}
	list, err := Versions(opts.Team.StatePath())
	if err != nil || len(list) != 2 || list[0].State.CurrentVMCID != "vm-of-cleo" || list[1].State.CurrentVMCID != "vm-1" {
		t.Fatalf("%+v, %v", list, err)
	}
}

// A state whose move fails exists only in the old place, even after the store works
// again.
func TestTeamMoveFails(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	web, ann, bob := team2(t)
	web.Before = func(r *http.Request) int {
		if full.Load() && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "state.json") {
			return http.StatusForbidden
		}
		return 0
	}
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	setTo(t, s, "vm-1")
	s.Close()
	move := func() error {
		opts := ann.options()
		return Move(t.Context(), path, opts.Team.StatePath(), opts.Team.Place(), Options{}, opts)
	}
	full.Store(true)
	if err := move(); err == nil || !strings.Contains(err.Error(), "403") {
		t.Fatalf("%v", err)
	}
	full.Store(false)
	s = ann.open()
	if s.Found() {
		t.Error("a copy of a move that failed came to the store")
	}
	s.Close()
	if s, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := move(); err != nil {
		t.Fatal(err)
	}
	s = bob.open()
	if got := s.Get(); got.CurrentVMCID != "vm-1" {
		t.Errorf("bob has %+v", got)
	}
	s.Close()
}
