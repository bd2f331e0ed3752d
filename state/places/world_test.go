package places

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/internal/postgrestest"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// placeNames are the places of the suite.
var placeNames = []string{"folder", "https", locking, "s3", "postgres"}

// locking is an https server with locks of its own, as for Terraform.
const locking = "https+locks"

// request is a request to the server of a place.
type request struct {
	write bool
	// name is that of the document; empty: unknown, as in a database.
	name string
}

// verdict is what happens to a request.
type verdict int

const (
	pass        verdict = iota
	refuse              // answered with a refusal, and not carried out
	unavailable         // answered with an error that may pass, and not carried out
	cut                 // the connection ends before it is carried out
	lose                // the connection ends after it was carried out
	lie                 // answered like a success, and not carried out
	fail                // carried out, and answered with an error that may pass
	careless            // carried out without its conditions
	slow                // carried out late
)

// world is a place for one case, with the faults of its server.
type world struct {
	t       *testing.T
	kind    string
	address string // of the store; empty: a folder
	dir     string // of the state file in a folder
	raw     documents
	web     *teamtest.Web // https only

	mu    sync.Mutex
	fault func(request) verdict // nil: all requests pass
}

// decide returns what happens to a request.
func (w *world) decide(r request) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return pass
	}
	return w.fault(r)
}

// faulty sets the faults of the server; nil: none.
func (w *world) faulty(fault func(request) verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// servers are the real servers, which all cases share.
type servers struct {
	s3       string // URL
	postgres *postgrestest.Server
}

// startServer starts the server of a kind of place.
func (s *servers) start(t *testing.T, kind string) {
	t.Helper()
	switch kind {
	case "s3":
		s.s3 = teamtest.S3(t)
	case "postgres":
		s.postgres = postgrestest.Start(t)
	}
}

// world returns a new place for a case. name is part of its address.
func (s *servers) world(t *testing.T, kind, name string) *world {
	t.Helper()
	w := &world{t: t, kind: kind}
	name = strings.NewReplacer(" ", "-", ":", "", ",", "", "+", "-").Replace(name)
	switch kind {
	case "folder":
		w.dir = t.TempDir()
		w.raw = files{w.dir}
	case "https", locking:
		w.web = &teamtest.Web{Locks: kind == locking}
		w.address = w.serve(t, w.web, "/"+name+"/") + "/" + name
		w.raw = inWeb{w.web, name + "/"}
	case "s3":
		to, err := url.Parse(s.s3)
		check(t, err)
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host // the host of the request is signed
			r.Out.Host = r.In.Host
		}}
		prefix := "/" + teamtest.Bucket + "/" + name + "/"
		w.address = "s3://" + teamtest.Bucket + "/" + name + "?endpoint=" + w.serve(t, proxy, prefix)
		w.raw = inBucket{s.s3, name + "/"}
	case "postgres":
		socket := postgresProxy(t, s.postgres, w)
		w.address = "postgres://bootstrap@/postgres?environment=" + name + "&host=" + url.QueryEscape(socket)
		w.raw = inDatabase{s.postgres.URL(), name}
	}
	return w
}

// serve starts a server with the faults of the world, and returns its URL.
func (w *world) serve(t *testing.T, good http.Handler, prefix string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, prefix)
		switch w.decide(request{write: r.Method != http.MethodGet, name: name}) {
		case refuse:
			out.WriteHeader(http.StatusForbidden)
			return
		case unavailable:
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		case cut:
			panic(http.ErrAbortHandler)
		case lose:
			good.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case fail:
			good.ServeHTTP(httptest.NewRecorder(), r)
			out.WriteHeader(http.StatusInternalServerError)
			return
		case lie:
			if r.Method != http.MethodGet {
				_, _ = io.Copy(io.Discard, r.Body)
				out.Header().Set("ETag", `"lie"`)
				return
			}
		case careless:
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		case slow:
			time.Sleep(50 * time.Millisecond) // this is the fault
		}
		good.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// machine is a machine of a person: its ~/.bosh, and how it uses the place.
type machine struct {
	*world
	home, who  string
	pid        int
	ttl, renew time.Duration
	wait       time.Duration
	given      team.Given
	warned     []error
}

// key is the state key of the team.
func key(n byte) team.Given {
	given, err := team.ParseGiven(team.Key{n}.Text())
	if err != nil {
		panic(err) // no key of a test is wrong
	}
	return given
}

func (w *world) machine(who string) *machine {
	return &machine{world: w, home: w.t.TempDir(), who: who, pid: os.Getpid(), renew: time.Hour, given: key(1)}
}

func (m *machine) holder() state.Holder {
	return state.Holder{User: m.who, Host: "here", PID: m.pid, Command: "deploy", Since: time.Now()}
}

// options returns the options for a run on the machine, connected to the store.
func (m *machine) options() file.Options {
	m.t.Helper()
	opts, err := m.connect()
	check(m.t, err)
	return opts
}

func (m *machine) connect() (file.Options, error) {
	opts := file.Options{Holder: m.holder(), Home: m.home, Wait: m.wait, Warn: func(err error) { m.warned = append(m.warned, err) }}
	if m.address == "" {
		return opts, nil
	}
	cfg := team.Config{Holder: opts.Holder, Getenv: os.Getenv, TTL: m.ttl, Renew: m.renew, Given: m.given, Wait: m.wait}
	s, err := team.Open(m.t.Context(), m.address, cfg)
	if err != nil {
		return opts, err
	}
	m.t.Cleanup(s.Close)
	opts.Team = team.CopyOf(m.home, s)
	return opts, nil
}

// path returns the path of the state file, or of the machine's copy.
func (m *machine) path() string {
	if m.address == "" {
		return filepath.Join(m.dir, "state.json")
	}
	return team.StateIn(team.Folder(m.home, team.Place(m.address)))
}

func (m *machine) try() (*file.Store, error) {
	m.t.Helper()
	return file.Open(m.t.Context(), m.path(), m.options())
}

func (m *machine) open() *file.Store {
	m.t.Helper()
	s, err := m.try()
	if err != nil {
		m.t.Fatalf("%s: %v", m.who, err)
	}
	return s
}

// set records a VM, in the place too.
func (m *machine) set(s *file.Store, vm string) {
	m.t.Helper()
	if err := errors.Join(s.Update(toVM(vm)), s.Unsent()); err != nil {
		m.t.Fatalf("%s: %v", m.who, err)
	}
}

// deploy is a run that records a VM.
func (m *machine) deploy(vm string) {
	m.t.Helper()
	s := m.open()
	defer s.Close()
	m.set(s, vm)
}

// expect checks the VM that the next run on the machine finds.
func (m *machine) expect(vm string) {
	m.t.Helper()
	s := m.open()
	defer s.Close()
	if got := s.Get().CurrentVMCID; got != vm || !s.Found() {
		m.t.Fatalf("%s has the VM %q, want %q", m.who, got, vm)
	}
}

func toVM(vm string) func(*state.State) error {
	return func(st *state.State) error {
		st.CurrentVMCID = vm
		return nil
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyOfHome returns a machine with the files that this one has now, as after a kill.
func (m *machine) copyOfHome(t *testing.T) *machine {
	t.Helper()
	next := *m
	next.home, next.warned = filepath.Join(t.TempDir(), "home"), nil
	check(t, os.CopyFS(next.home, os.DirFS(m.home)))
	return &next
}
