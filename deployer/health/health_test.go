package health

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/manifest"
)

func TestOnce(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/broken", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	plain := httptest.NewServer(http.HandlerFunc(answer))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer secure.Close()
	secure.Config.ErrorLog = nil
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	port := func(s *httptest.Server) string { return ":" + must(url.Parse(s.URL)).Port() }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "check.sh"), []byte("#!/bin/sh\necho \"looked at $BOOTSTRAP_ADDRESS\"\necho\n[ \"$1\" = well ] || { echo 'not yet' >&2; exit 3; }\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		check manifest.HealthCheck
		want  string // part of the error; empty: no error
	}{
		{manifest.HealthCheck{HTTP: plain.URL}, ""},
		{manifest.HealthCheck{HTTP: "http://" + port(plain) + "/"}, ""},
		{manifest.HealthCheck{HTTP: plain.URL + "/moved"}, ""}, // redirects are not followed
		{manifest.HealthCheck{HTTP: plain.URL + "/moved", Status: 200}, "the status is 302 Found, not 200"},
		{manifest.HealthCheck{HTTP: plain.URL + "/broken"}, "the status is 503 Service Unavailable"},
		{manifest.HealthCheck{HTTP: plain.URL + "/broken", Status: 503}, ""},
		{manifest.HealthCheck{HTTP: "https://" + port(secure) + "/", CA: ca}, ""},
		{manifest.HealthCheck{HTTP: "https://" + port(secure) + "/"}, "certificate"},
		{manifest.HealthCheck{HTTP: "https://" + port(secure) + "/", CA: "?"}, "ca contains no certificate"},
		{manifest.HealthCheck{HTTP: "http://user:hush-hush@" + nobody}, "refused"},
		{manifest.HealthCheck{TCP: port(plain)}, ""},
		{manifest.HealthCheck{TCP: nobody}, "refused"},
		{manifest.HealthCheck{Exec: []string{"./check.sh", "well"}}, ""},
		{manifest.HealthCheck{Exec: []string{"./check.sh", "ill"}}, "exit status 3: not yet"},
		{manifest.HealthCheck{Exec: []string{"./missing.sh"}}, "cannot start it"},
	} {
		err := Once(t.Context(), c.check, From{Address: "127.0.0.1", Dir: dir, Env: os.Environ()})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || err != nil && strings.Contains(err.Error(), "hush-hush") {
			t.Errorf("%+v: %v, want %q", c.check, err, c.want)
		}
		if strings.Contains(Name(c.check), "hush-hush") {
			t.Error(Name(c.check))
		}
	}
	if err := Once(t.Context(), manifest.HealthCheck{TCP: ":1"}, From{}); err == nil || !strings.Contains(err.Error(), "the address of the instance is not known") {
		t.Error(err)
	}
	// The check uses the route to the VM.
	routed := false
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		routed = address == "10.9.8.7"+port(secure)
		return (&net.Dialer{}).DialContext(ctx, network, secure.Listener.Addr().String())
	}
	if err := Once(t.Context(), manifest.HealthCheck{TCP: port(secure)}, From{Address: "10.9.8.7", Dial: dial}); err != nil || !routed {
		t.Error(err, routed)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWait(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	var said []string
	check := manifest.HealthCheck{HTTP: server.URL, Timeout: time.Minute, Interval: time.Millisecond}
	if err := Wait(t.Context(), check, From{}, func(text string) { said = append(said, text) }); err != nil || len(said) != 2 {
		t.Error(err, said)
	}
	check.Status, check.Timeout = 204, time.Second
	err := Wait(t.Context(), check, From{}, func(string) {})
	if failing, ok := errors.AsType[*UnhealthyError](err); !ok || !strings.Contains(failing.Error(), "did not pass within 1s, its timeout: the status is 200 OK, not 204") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	check.Timeout = time.Minute
	err = Wait(ctx, check, From{}, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The cause is the answer of the service, not the interruption of the last attempt.
func TestLastAttemptIsCutShort(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	check := manifest.HealthCheck{HTTP: server.URL, Timeout: time.Second, Interval: time.Millisecond}
	err := Wait(t.Context(), check, From{}, func(string) {})
	if failing, ok := errors.AsType[*UnhealthyError](err); !ok || !strings.Contains(failing.Err.Error(), "502 Bad Gateway") {
		t.Error(err)
	}
}

// A program that hangs is killed with its children, and the error shows its last output.
func TestProgramThatHangs(t *testing.T) {
	check := manifest.HealthCheck{Exec: []string{"sh", "-c", "echo begun; echo asking the database; sleep 600 & sleep 600"}, Timeout: time.Second}
	err := Wait(t.Context(), check, From{Env: os.Environ()}, func(string) {})
	if failing, ok := errors.AsType[*UnhealthyError](err); !ok || failing.Error() != "the health check exec sh did not pass within 1s, its timeout: no answer by then: asking the database" {
		t.Error(err)
	}
}
