package team_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/internal/postgrestest"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
	"bootstrap/state/versions"
)

// All kinds of stores behave the same.
func TestStores(t *testing.T) {
	t.Parallel()
	web := func(locks bool) func(*testing.T) func(string) string {
		return func(t *testing.T) func(string) string {
			server := httptest.NewServer(&teamtest.Web{Locks: locks})
			t.Cleanup(server.Close)
			return func(environment string) string { return server.URL + "/" + environment }
		}
	}
	places := map[string]func(*testing.T) func(environment string) string{
		"https":            web(false),
		"https with locks": web(true),
		"s3": func(t *testing.T) func(string) string {
			endpoint := teamtest.S3(t)
			return func(environment string) string {
				return "s3://" + teamtest.Bucket + "/" + environment + "?endpoint=" + endpoint
			}
		},
		"postgres": func(t *testing.T) func(string) string {
			server := postgrestest.Start(t)
			return func(environment string) string { return server.URL() + "&environment=" + environment }
		},
	}
	tests := map[string]func(*testing.T, string){
		"save and load": testSaveAndLoad, "racing savers": testRacingSavers, "lock": testLock, "wait": testWait,
		"end of the lease": testLeaseEnds, "renewal": testRenewal, "dead holder": testDeadHolder, "break": testBreak,
		"damaged lease": testDamagedLease,
		"history":       testHistory, "probe": testProbe, "copy": testCopy, "dead connections": testDeadConnections,
		"sleep": testSleep, "proofs": testProofs, "renewed key": testRenewedKey, "trust": testTrust, "behind": testBehind,
	}
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := start(t)
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, address(strings.ReplaceAll(name, " ", "-")))
				})
			}
		})
	}
}

func TestMain(m *testing.M) {
	os.Setenv("AWS_ACCESS_KEY_ID", teamtest.KeyID)
	os.Setenv("AWS_SECRET_ACCESS_KEY", teamtest.Secret)
	os.Exit(m.Run())
}

func config(who string) team.Config {
	return team.Config{
		Holder: state.Holder{User: who, Host: "here", PID: os.Getpid(), Command: "deploy", Since: time.Now()},
		Getenv: func(name string) string { return "" },
		Given:  given,
	}
}

// given is the state key of the stores.
var given = func() team.Given {
	g, err := team.ParseGiven(team.Key{1, 2, 3}.Text())
	if err != nil {
		panic(err)
	}
	return g
}()

func open(t testing.TB, address string, cfg team.Config) *team.Store {
	t.Helper()
	s, err := team.Open(t.Context(), address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func lock(t testing.TB, s *team.Store) (taken bool) {
	t.Helper()
	taken, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func unlock(t testing.TB, s *team.Store) {
	t.Helper()
	if err := s.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func save(t testing.TB, s *team.Store, text, was string) string {
	t.Helper()
	version, err := s.Save(t.Context(), []byte(text), was)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func expectState(t testing.TB, s *team.Store, want string) team.Document {
	t.Helper()
	d, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Data) != want {
		t.Fatalf("the state is %q, want %q", d.Data, want)
	}
	return d
}

func testSaveAndLoad(t *testing.T, address string) {
	s := open(t, address, config("ann"))
	if d, err := s.Load(t.Context()); err != nil || d.Version != "" || d.Data != nil {
		t.Fatalf("of nothing: %+v, %v", d, err)
	}
	if _, err := s.Save(t.Context(), []byte("x"), ""); err == nil {
		t.Fatal("saved without the lock")
	}
	lock(t, s)
	first := save(t, s, "one", "")
	second := save(t, s, "two", first)
	if second == first {
		t.Error("two versions have the same name")
	}
	for _, was := range []string{"", first} {
		if _, err := s.Save(t.Context(), []byte("three"), was); !errors.Is(err, team.ErrChanged) {
			t.Errorf("with the version %q, when it is %q: %v", was, second, err)
		}
	}
	if d := expectState(t, s, "two"); d.Version != second || d.Age < 0 || d.Age > time.Minute {
		t.Errorf("loaded %+v", d)
	}
	other := open(t, strings.Replace(address, "save-and-load", "other", 1), config("ann"))
	if d, err := other.Load(t.Context()); err != nil || d.Version != "" {
		t.Errorf("the state of another environment: %+v, %v", d, err)
	}
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectState(t, s, "")
	unlock(t, s)
}

// Of several runs that have read a version, exactly one replaces it.
func testRacingSavers(t *testing.T, address string) {
	lock(t, open(t, address, config("ann")))
	docs := open(t, address, config("bob"))
	was := ""
	for round := range 10 {
		var wg sync.WaitGroup
		var won atomic.Int64
		var winner atomic.Value
		for i := range 6 {
			wg.Go(func() {
				text := fmt.Sprintf("%d of round %d", i, round)
				version, err := team.PutRaw(t.Context(), docs, "race.json", []byte(text), was)
				switch {
				case err == nil:
					won.Add(1)
					winner.Store([2]string{text, version})
				case !errors.Is(err, team.ErrChanged):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of 6 replaced the same version", round, won.Load())
		}
		w := winner.Load().([2]string)
		d, err := team.GetRaw(t.Context(), docs, "race.json")
		if err != nil || string(d.Data) != w[0] || d.Version != w[1] {
			t.Fatalf("round %d: %q, version %q; want %q: %v", round, d.Data, d.Version, w, err)
		}
		was = d.Version
	}
}

func testLock(t *testing.T, address string) {
	a, b := open(t, address, config("ann")), open(t, address, config("bob"))
	if taken := lock(t, a); taken {
		t.Error("a free lock was taken from somebody")
	}
	_, err := b.Lock(t.Context())
	held, ok := errors.AsType[*team.HeldError](err)
	if !ok || held.Holder.User != "ann" || held.Fence != 1 {
		t.Fatalf("%v: %+v", err, held)
	}
	if who, err := b.Holder(t.Context()); err != nil || who == nil || who.Holder.User != "ann" || who.Left <= 0 || who.Left > team.TTL {
		t.Errorf("%+v, %v", who, err)
	}
	unlock(t, a)
	if who, err := b.Holder(t.Context()); err != nil || who != nil {
		t.Errorf("held by %+v, %v", who, err)
	}
	if taken := lock(t, b); taken {
		t.Error("a lock that was given up was taken from somebody")
	}
	if who, err := a.Holder(t.Context()); err != nil || who == nil || who.Fence != 2 {
		t.Errorf("%+v, %v", who, err)
	}
	unlock(t, b)
}

func testWait(t *testing.T, address string) {
	a := open(t, address, config("ann"))
	lock(t, a)
	cfg := config("bob")
	waits := make(chan *team.HeldError, 1)
	cfg.Wait, cfg.Waiting = time.Minute, func(e *team.HeldError) { waits <- e }
	b := open(t, address, cfg)
	done := make(chan error, 1)
	go func() {
		_, err := b.Lock(t.Context())
		done <- err
	}()
	if e := <-waits; e.Holder.User != "ann" {
		t.Errorf("waits for %+v", e)
	}
	unlock(t, a)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	unlock(t, b)
}

// A run that does not renew its lease loses it to the next, and cannot write any more.
func testLeaseEnds(t *testing.T, address string) {
	slow := config("ann")
	slow.TTL, slow.Renew = 2*time.Second, time.Hour // like a process that is stopped
	slow.Holder.PID = 0                             // other runs cannot see whether its process is running
	a := open(t, address, slow)
	lock(t, a)
	first := save(t, a, "of ann", "")
	b := open(t, address, func() team.Config { c := config("bob"); c.Wait = time.Minute; return c }())
	if taken := lock(t, b); !taken {
		t.Error("the lock was not taken from ann")
	}
	save(t, b, "of bob", first)
	_, err := a.Save(t.Context(), []byte("of ann again"), first)
	lost, ok := errors.AsType[*team.LostError](err)
	if !ok || lost.By == nil || lost.By.User != "bob" {
		t.Fatalf("ann saves: %v", err)
	}
	if err := a.Remove(t.Context()); err == nil {
		t.Error("ann removes the state")
	}
	expectState(t, b, "of bob")
	unlock(t, a) // another run's lease stays
	if who, err := a.Holder(t.Context()); err != nil || who == nil || who.Holder.User != "bob" {
		t.Errorf("held by %+v, %v", who, err)
	}
	unlock(t, b)
}

// A lease lasts as long as it is renewed.
func testRenewal(t *testing.T, address string) {
	cfg := config("ann")
	cfg.TTL, cfg.Renew = 2*time.Second, 200*time.Millisecond
	a := open(t, address, cfg)
	lock(t, a)
	b := open(t, address, func() team.Config { c := config("bob"); c.Wait = 3 * time.Second; return c }())
	if _, err := b.Lock(t.Context()); err == nil {
		t.Fatal("bob has the lock that ann renews")
	}
	save(t, a, "of ann", "")
	unlock(t, a)
}

// No run waits for a process of this machine that has ended.
func testDeadHolder(t *testing.T, address string) {
	dead := config("ann")
	dead.Holder.PID = 1 << 30
	a, err := team.Open(t.Context(), address, dead)
	if err != nil {
		t.Fatal(err)
	}
	lock(t, a)
	version := save(t, a, "of ann", "")
	a.Close()
	b := open(t, address, config("bob"))
	if taken := lock(t, b); !taken {
		t.Error("the lock was not taken from ann")
	}
	save(t, b, "of bob", version)
	unlock(t, b)
}

func testBreak(t *testing.T, address string) {
	a, b := open(t, address, config("ann")), open(t, address, config("bob"))
	lock(t, a)
	who, err := b.Holder(t.Context())
	if err != nil || who == nil {
		t.Fatal(who, err)
	}
	if err := b.Break(t.Context(), who.Fence+1); !errors.Is(err, team.ErrChanged) {
		t.Errorf("broke the lock of another: %v", err)
	}
	if err := b.Break(t.Context(), who.Fence); err != nil {
		t.Fatal(err)
	}
	if taken := lock(t, b); !taken {
		t.Error("the lock counts as given up by ann, who may still write")
	}
	if _, err := a.Save(t.Context(), []byte("of ann"), ""); err == nil {
		// Nobody has written since: only the condition of the write can refuse it.
		save(t, b, "of bob", expectState(t, b, "of ann").Version)
	}
	unlock(t, b)
}

// A damaged lease refuses runs until it is replaced.
func testDamagedLease(t *testing.T, address string) {
	s := open(t, address, config("ann"))
	if _, err := team.PutRaw(t.Context(), s, "lock.json", []byte("{"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "lock.json is damaged") {
		t.Fatalf("%v", err)
	}
	held, err := s.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	if err := s.Break(t.Context(), held.Fence); err != nil {
		t.Fatal(err)
	}
	lock(t, s)
	unlock(t, s)
}

// A run does not wait forever for a place that always reports that another writer was
// faster.
func TestLockIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{Before: func(r *http.Request) int {
		if r.Method == http.MethodPut { // like WebDAV without the folder
			return http.StatusConflict
		}
		return 0
	}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	cfg := config("ann")
	cfg.TTL = 20 * time.Millisecond // so that there are many attempts
	s := open(t, server.URL+"/env", cfg)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Lock(ctx); !errors.Is(err, team.ErrChanged) {
		t.Errorf("%v", err)
	}
}

// If a server did not receive an unlock, the next run gets its lock.
func TestServerKeepsLock(t *testing.T) {
	t.Parallel()
	var deaf atomic.Bool
	web := &teamtest.Web{Locks: true, Before: func(r *http.Request) int {
		if r.Method == "UNLOCK" && deaf.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	a, b := open(t, server.URL+"/env", config("ann")), open(t, server.URL+"/env", config("bob"))
	lock(t, a)
	deaf.Store(true)
	unlock(t, a)
	if _, err := b.Lock(t.Context()); err == nil { // the server does not receive this one either
		t.Fatal("the server has given the lock to two")
	}
	deaf.Store(false)
	lock(t, b)
	unlock(t, b)
}

// The lock of a removed state is removed, and never that of the next run.
func TestRemovedLock(t *testing.T) {
	t.Parallel()
	var b *team.Store
	web := &teamtest.Web{Before: func(r *http.Request) int {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "lock.json") {
			if _, err := b.Lock(t.Context()); err == nil {
				t.Error("the lock was free before it was removed")
			}
		}
		return 0
	}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	a := open(t, server.URL+"/env", config("ann"))
	b = open(t, server.URL+"/env", config("bob"))
	lock(t, a)
	save(t, a, "of ann", "")
	if err := a.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlock(t, a)
	if names := web.Names(); len(names) > 0 {
		t.Errorf("the store still has %v", names)
	}
	lock(t, b)
	unlock(t, b)
}

func testHistory(t *testing.T, address string) {
	s := open(t, address, config("ann"))
	lock(t, s)
	for _, serial := range []int{3, 7, 7, 12} {
		if err := s.Keep(t.Context(), serial, versions.Documents{versions.Snapshot: fmt.Appendf(nil, "version %d", serial)}, versions.Rules{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var serials []int
	for _, v := range list.Versions {
		serials = append(serials, v.Serial)
		if v.By != "ann@here" || v.Command != "deploy" || time.Since(v.Written) > time.Minute {
			t.Errorf("%+v", v)
		}
	}
	if !slices.Equal(serials, []int{12, 7, 3}) {
		t.Errorf("versions %v", serials)
	}
	if data, err := s.Earlier(t.Context(), 7); err != nil || string(data) != "version 7" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := s.Earlier(t.Context(), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no version: %v", err)
	}
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := s.History(t.Context()); err != nil || len(list.Versions) > 0 {
		t.Errorf("after the removal: %v, %v", list, err)
	}
	unlock(t, s)
}

// The oldest versions are removed, the others stay.
func TestHistoryIsPruned(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	s := open(t, server.URL+"/pruned", config("ann"))
	lock(t, s)
	for serial := range 105 {
		if err := s.Keep(t.Context(), serial, versions.Documents{versions.Snapshot: fmt.Appendf(nil, "version %d", serial)}, versions.Rules{}); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for _, name := range web.Names() {
		if strings.Contains(name, "/history/") {
			kept++
		}
	}
	if list, err := s.History(t.Context()); err != nil || len(list.Versions) != 100 || list.Versions[99].Serial != 5 || kept != 100 {
		t.Errorf("%d in the list, %d kept: %v", len(list.Versions), kept, err)
	}
}

// A server may carry out a request and answer that it failed.
func TestServerStoresAndFails(t *testing.T) {
	t.Parallel()
	for _, locks := range []bool{false, true} {
		web := &teamtest.Web{Locks: locks}
		var n atomic.Int64
		web.After = func(r *http.Request) int {
			if r.Method == http.MethodPut && n.Add(1)%2 == 1 {
				return http.StatusInternalServerError
			}
			return 0
		}
		server := httptest.NewServer(web)
		t.Cleanup(server.Close)
		s := open(t, server.URL+"/fails", config("ann"))
		lock(t, s)
		version := ""
		for i := range 5 {
			version = save(t, s, fmt.Sprint(i), version)
			expectState(t, s, fmt.Sprint(i))
		}
		unlock(t, s)
		if who, err := s.Holder(t.Context()); err != nil || who != nil {
			t.Errorf("held by %+v, %v", who, err)
		}
	}
}

// The network fails after the server has stored a state and before it answers. The next
// write of this machine does not conflict with its own state, but does conflict with a
// state that another machine made from it.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"the same run", "another run", "another machine"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			var armed, down atomic.Bool
			web := &teamtest.Web{
				Before: func(*http.Request) int {
					if down.Load() {
						return http.StatusServiceUnavailable
					}
					return 0
				},
				After: func(r *http.Request) int {
					if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/state.json") && armed.CompareAndSwap(true, false) {
						down.Store(true)
						return http.StatusInternalServerError
					}
					return 0
				},
			}
			server := httptest.NewServer(web)
			t.Cleanup(server.Close)
			home := t.TempDir()
			copyOf := func(who string) *team.Copy { return team.CopyOf(home, open(t, server.URL+"/lost", config(who))) }
			write := func(c *team.Copy, text string) {
				t.Helper()
				err := os.MkdirAll(filepath.Dir(c.StatePath()), 0o700)
				if err = errors.Join(err, os.WriteFile(c.StatePath(), []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			a := copyOf("ann")
			lock(t, a.Store)
			write(a, "one")
			if err := a.Push(t.Context()); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			write(a, "two")
			if err := a.Push(t.Context()); err == nil {
				t.Fatal("a state was written through a network that is down")
			}
			down.Store(false)
			expectState(t, a.Store, "two")
			write(a, "three")
			if next != "the same run" {
				unlock(t, a.Store)
				if next == "another machine" {
					b := open(t, server.URL+"/lost", config("bob"))
					lock(t, b)
					d, err := b.Load(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					save(t, b, "three of bob", d.Version)
					unlock(t, b)
				}
				a = copyOf("ann")
				lock(t, a.Store)
				err := a.Pull(t.Context())
				if _, conflict := errors.AsType[*team.ConflictError](err); conflict != (next == "another machine") {
					t.Errorf("%v", err)
				}
			}
			want := "three"
			if err := a.Push(t.Context()); (err != nil) != (next == "another machine") {
				t.Errorf("%v", err)
			} else if err != nil {
				want = "three of bob"
			}
			expectState(t, a.Store, want)
			unlock(t, a.Store)
		})
	}
}

// The clocks of a server and of its clients need not agree.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		server := httptest.NewServer(&teamtest.Web{Skew: skew})
		t.Cleanup(server.Close)
		a, b := open(t, server.URL+"/skew", config("ann")), open(t, server.URL+"/skew", config("bob"))
		lock(t, a)
		if _, err := b.Lock(t.Context()); err == nil {
			t.Errorf("a lock is over at once for a server with its clock %v off", skew)
		}
		if who, err := b.Holder(t.Context()); err != nil || who.Left < team.TTL/2 || who.Left > team.TTL {
			t.Errorf("%+v, %v", who, err)
		}
		unlock(t, a)
	}
}

// S3 refuses requests with a wrong time: they are sent with the server's time.
func TestClockSkewOfS3(t *testing.T) {
	t.Parallel()
	endpoint := teamtest.S3(t)
	u, _ := url.Parse("s3://" + teamtest.Bucket + "/skew?endpoint=" + endpoint)
	docs, err := team.OpenS3Skewed(t.Context(), u, config("ann"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	version, err := docs.Put(t.Context(), "a.json", []byte("a"), "")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := docs.Get(t.Context(), "a.json"); err != nil || d.Version != version || string(d.Data) != "a" {
		t.Errorf("%+v, %v", d, err)
	}
}

// Before each step a run confirms that it holds the lease. An outage of the store does
// not end the lease. If somebody breaks it, every later call reports the new holder.
func TestConfirm(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{}
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(out, "maintenance", http.StatusServiceUnavailable)
			return
		}
		web.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	ann := config("ann")
	ann.TTL, ann.Renew = time.Hour, time.Hour
	a, b := open(t, server.URL+"/confirm", ann), open(t, server.URL+"/confirm", config("bob"))
	if err := a.Confirm(t.Context()); err != nil {
		t.Errorf("without a lease: %v", err)
	}
	lock(t, a)
	if err := a.Confirm(t.Context()); err != nil {
		t.Errorf("with the lease: %v", err)
	}
	down.Store(true)
	if err := a.Confirm(t.Context()); err != nil {
		t.Errorf("while the store is down: %v", err)
	}
	down.Store(false)
	who, err := b.Holder(t.Context())
	if err != nil || who == nil {
		t.Fatal(who, err)
	}
	if err := b.Break(t.Context(), who.Fence); err != nil {
		t.Fatal(err)
	}
	lock(t, b)
	for range 2 {
		lost, ok := errors.AsType[*team.LostError](a.Confirm(t.Context()))
		if !ok || lost.By == nil || lost.By.User != "bob" {
			t.Errorf("after bob has the lock: %v", lost)
		}
	}
	unlock(t, b)
}

// A run observes the lease on a server without a clock.
func TestServerWithoutClock(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		web.ServeHTTP(withoutDate{out}, r)
	}))
	t.Cleanup(server.Close)
	slow := config("ann")
	slow.TTL, slow.Renew, slow.Holder.PID = time.Second, time.Hour, 0
	a := open(t, server.URL+"/clock", slow)
	lock(t, a)
	b := open(t, server.URL+"/clock", config("bob"))
	if _, err := b.Lock(t.Context()); err == nil {
		t.Error("a lock was taken that may be a moment old")
	}
	c := open(t, server.URL+"/clock", func() team.Config { c := config("cid"); c.Wait = time.Minute; return c }())
	if taken := lock(t, c); !taken {
		t.Error("the lock was not taken from ann")
	}
	unlock(t, c)
	if at := team.Sighted(b); !strings.Contains(at.String(), "m=") {
		t.Errorf("the lease was seen at %v, by a clock that may jump", at)
	}
}

type withoutDate struct{ http.ResponseWriter }

func (w withoutDate) WriteHeader(status int) {
	w.Header()["Date"] = nil
	w.Header().Del("Last-Modified")
	w.ResponseWriter.WriteHeader(status)
}

// After a run that was killed at any request, the next run can continue: each document
// has one of its two versions.
func TestKillAtEveryRequest(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for at := int64(1); ; at++ {
			ended := killAt(t, at, applied)
			if ended {
				break
			}
			if at > 100 {
				t.Fatal("a run has more than 100 requests")
			}
		}
	}
}

func killAt(t *testing.T, at int64, applied bool) (ended bool) {
	t.Helper()
	web := &teamtest.Web{}
	var n atomic.Int64
	var next atomic.Bool // the next run has no failures
	dead := func() bool { return n.Load() >= at }
	web.Before = func(*http.Request) int {
		if next.Load() {
			return 0
		}
		if dead() {
			panic(http.ErrAbortHandler)
		}
		if n.Add(1) >= at && !applied {
			panic(http.ErrAbortHandler)
		}
		return 0
	}
	web.After = func(*http.Request) int {
		if !next.Load() && dead() {
			panic(http.ErrAbortHandler)
		}
		return 0
	}
	server := httptest.NewServer(web)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed := config("ann")
	killed.Holder.PID = 1 << 30
	whole := func() bool {
		a, err := team.Open(ctx, server.URL+"/kill", killed)
		if err != nil {
			return false
		}
		defer a.Close()
		short, stop := context.WithCancel(ctx)
		defer stop()
		go func() { // a dead process does not repeat its requests
			_ = wait.Poll(short, time.Millisecond, func() (bool, error) { return dead(), nil })
			stop()
		}()
		if _, err := a.Lock(short); err != nil {
			return false
		}
		version := ""
		for i := range 3 {
			if version, err = a.Save(short, fmt.Append(nil, i), version); err != nil {
				return false
			}
		}
		return a.Keep(short, 2, versions.Documents{versions.Snapshot: []byte("2"), versions.Manifest: []byte("{}")}, versions.Rules{}) == nil && a.Unlock(short) == nil
	}()
	next.Store(true)
	b, err := team.Open(ctx, server.URL+"/kill", config("bob"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Lock(ctx); err != nil {
		t.Fatalf("killed at request %d: %v", at, err)
	}
	d, err := b.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Save(ctx, []byte("of bob"), d.Version); err != nil {
		t.Fatalf("killed at request %d: %v", at, err)
	}
	if err := b.Keep(ctx, 3, versions.Documents{versions.Snapshot: []byte("of bob")}, versions.Rules{Gone: []string{"VM vm-1"}}); err != nil {
		t.Fatalf("killed at request %d: %v", at, err)
	}
	list, err := b.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list.Versions {
		if _, err := b.Earlier(ctx, v.Serial); err != nil {
			t.Errorf("killed at request %d: %v", at, err)
		}
	}
	unlock(t, b)
	return whole && !dead()
}

func testProbe(t *testing.T, address string) {
	home := t.TempDir()
	c := team.CopyOf(home, open(t, address, config("ann")))
	for range 2 {
		if err := c.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that ignores the conditions of writes is refused.
func TestCarelessServer(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{Careless: true}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	c := team.CopyOf(t.TempDir(), open(t, server.URL+"/careless", config("ann")))
	if err := c.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "ignores the conditions of a write") {
		t.Errorf("%v", err)
	}
	if names := web.Names(); len(names) > 0 {
		t.Errorf("it still has %v", names)
	}
}

// A part of a store is checked as the whole store is: nothing is left, and the instances of
// a deployment are not checked again after its record.
func TestProbeOfPart(t *testing.T) {
	t.Parallel()
	var writes atomic.Int32
	web := &teamtest.Web{Before: func(r *http.Request) int {
		if r.Method == http.MethodPut {
			writes.Add(1)
		}
		return 0
	}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	c := team.CopyOf(t.TempDir(), open(t, server.URL+"/part", config("ann")))
	if err := c.Record().Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := web.Names(); len(names) > 0 {
		t.Errorf("it still has %v", names)
	}
	probed := writes.Load()
	one, err := c.Instance(team.InstanceState("web-6ba7b810"))
	if err == nil {
		err = one.Probe(t.Context())
	}
	if err != nil || probed == 0 || writes.Load() != probed {
		t.Errorf("%d writes, then %d: %v", probed, writes.Load()-probed, err)
	}
}

// testCopy uses one store from two machines.
func testCopy(t *testing.T, address string) {
	homes := []string{t.TempDir(), t.TempDir()}
	copyOf := func(machine int) *team.Copy {
		return team.CopyOf(homes[machine], open(t, address, config([]string{"ann", "bob"}[machine])))
	}
	write := func(c *team.Copy, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(c.StatePath()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.StatePath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(c *team.Copy, want string) {
		t.Helper()
		data, err := os.ReadFile(c.StatePath())
		if err != nil && !errors.Is(err, fs.ErrNotExist) || string(data) != want {
			t.Fatalf("the copy is %q, want %q: %v", data, want, err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := copyOf(0), copyOf(1)
	do(a.Pull(t.Context()))
	expect(a, "")
	lock(t, a.Store)
	write(a, "one")
	do(a.Push(t.Context()))
	expectState(t, b.Store, "one")
	do(b.Pull(t.Context()))
	expect(b, "one")

	// The next push sends the changes, also in another process.
	write(a, "two")
	do(a.Pull(t.Context()))
	expect(a, "two")
	if unsent, err := a.Unsent(); err != nil || !unsent {
		t.Errorf("unsent %v, %v", unsent, err)
	}
	unlock(t, a.Store)
	a = copyOf(0)
	lock(t, a.Store)
	do(a.Push(t.Context()))
	unlock(t, a.Store)
	do(b.Pull(t.Context()))
	expect(b, "two")

	// Both machines have changed the state.
	write(a, "three of ann")
	lock(t, b.Store)
	write(b, "three of bob")
	do(b.Push(t.Context()))
	unlock(t, b.Store)
	err := a.Pull(t.Context())
	if _, ok := errors.AsType[*team.ConflictError](err); !ok {
		t.Fatalf("%v", err)
	}
	expect(a, "three of ann")
	lock(t, a.Store)
	if err := a.Push(t.Context()); !errors.Is(err, team.ErrChanged) {
		t.Fatalf("%v", err)
	}
	do(a.Overwrite(t.Context()))
	do(a.Push(t.Context()))
	unlock(t, a.Store)
	do(b.Pull(t.Context()))
	expect(b, "three of ann")

	// A removed copy is created again.
	do(os.Remove(b.StatePath()))
	do(b.Pull(t.Context()))
	expect(b, "three of ann")

	// The copy of a state that was removed from the store is removed.
	lock(t, a.Store)
	do(a.Remove(t.Context()))
	do(a.Removed())
	unlock(t, a.Store)
	do(b.Pull(t.Context()))
	expect(b, "")
}

// A missing bucket is not taken for an empty store, nor is an unknown key, which this
// server answers with 404: otherwise a deploy would create a second VM.
func TestS3HidesNothingBehind404(t *testing.T) {
	endpoint := teamtest.S3(t)
	for _, c := range []struct{ name, bucket, key, want string }{
		{"bucket", "no-such-bucket", teamtest.KeyID, "create the bucket"},
		{"key", teamtest.Bucket, "stranger", "check the credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", c.key)
			s := open(t, "s3://"+c.bucket+"/env?endpoint="+endpoint, config("ann"))
			if d, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// A misspelled parameter would lead to another store.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"s3://team/env?endpiont=https://minio.example.com", "https://example.com/env?token=abc"} {
		_, err := team.Open(t.Context(), address, config("ann"))
		if err == nil || !strings.Contains(err.Error(), "parameter") || strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The argument of --state in printed commands works when it is pasted, and contains no
// password.
func TestArgument(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := server.URL() + "&environment=lab"
	argument := open(t, address+"&password=hidden-one", config("ann")).Argument()
	if strings.Contains(argument, "hidden") {
		t.Error(argument)
	}
	if again := open(t, argument, config("ann")); again.Place() != team.Place(address) {
		t.Error(again.Place())
	}
}

// A server whose certificate is from an unknown CA gets one request, and the error says
// what to do.
func TestUnknownCA(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(&teamtest.Web{})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, err := open(t, server.URL+"/env", config("ann")).Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Error(err)
	}
}
