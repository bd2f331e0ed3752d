package team_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/internal/postgrestest"
	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// All kinds of stores behave the same. The package state/places has what a run sees of them.
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
		"save and load": testSaveAndLoad, "racing savers": testRacingSavers, "lock": testLock, "renewal": testRenewal, "break": testBreak,
		"probe": testProbe, "dead connections": testDeadConnections, "sleep": testSleep, "proofs": testProofs, "renewed key": testRenewedKey, "trust": testTrust, "behind": testBehind,
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
	if err := s.Remove(t.Context(), ""); err != nil {
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
	if err := a.Remove(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	unlock(t, a)
	if names := web.Names(); !slices.Equal(names, []string{"env/deleted.json"}) {
		t.Errorf("the store still has %v", names)
	}
	lock(t, b)
	unlock(t, b)
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

func testProbe(t *testing.T, address string) {
	home := t.TempDir()
	c := team.CopyOf(home, open(t, address, config("ann")))
	for range 2 {
		if err := c.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
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
