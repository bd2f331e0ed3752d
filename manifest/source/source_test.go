package source

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/manifest/document"
)

// conversation is a list of requests with the answers of a server.
type conversation struct {
	From         string
	Conversation []struct {
		Token, Request string
		Form           map[string]string
		Status         int
		Body           json.RawMessage
	}
}

// serve serves a conversation over TLS. It fails the test at any other request, and at a
// wrong token, which the function token finds.
func serve(t *testing.T, file string, token func(*http.Request) string) *httptest.Server {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var c conversation
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, one := range c.Conversation {
			if one.Request != r.Method+" "+r.URL.RequestURI() || one.Token != token(r) {
				continue
			}
			for key, want := range one.Form {
				if got := r.PostFormValue(key); got != want {
					t.Errorf("%s: %s is %q, want %q", one.Request, key, got, want)
				}
			}
			w.WriteHeader(one.Status)
			_, _ = io.WriteString(w, strings.ReplaceAll(string(one.Body), "{{uaa}}", server.URL))
			return
		}
		t.Errorf("unexpected request %s %s with the token %q", r.Method, r.URL.RequestURI(), token(r))
		http.Error(w, "unexpected", http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	return server
}

// environ returns an environment with which clients trust the server.
func environ(server *httptest.Server, more ...string) []string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return append([]string{"PATH=" + os.Getenv("PATH"), "CREDHUB_CA_CERT=" + string(ca), "VAULT_CACERT=" + string(ca),
		"VAULT_TOKEN=root", "CREDHUB_CLIENT=ci", "CREDHUB_SECRET=ci-secret"}, more...)
}

// ask asks the sources once.
func ask(t *testing.T, env []string, sources []string, names ...string) (map[string]any, error) {
	t.Helper()
	values := map[string]any{}
	answers, err := made(t, env, sources...).Ask(t.Context(), names)
	for name, a := range answers.Values {
		values[name] = a.Value
	}
	return values, err
}

func made(t *testing.T, env []string, sources ...string) *Sources {
	t.Helper()
	s, err := New(sources, Config{Environ: env, Getenv: func(name string) string {
		for _, setting := range slices.Backward(env) {
			if value, ok := strings.CutPrefix(setting, name+"="); ok {
				return value
			}
		}
		return ""
	}, PassEnv: []string{"PASSED"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func vaultToken(r *http.Request) string {
	if r.Header.Get("X-Vault-Request") != "true" {
		return "without X-Vault-Request"
	}
	return r.Header.Get("X-Vault-Token")
}

func TestVault(t *testing.T) {
	t.Parallel()
	server := serve(t, "vault.json", vaultToken)
	env := environ(server)
	for at, want := range map[string]map[string]any{
		"/secret/prod": {
			"db_password": "pässw0rd-1", "könig": "unicode-1", "/other/shared": "shared-1", "nope": nil, "gone": nil,
			"db": map[string]any{"user": "admin", "password": "s3cret-db", "port": 5432, "nested": map[string]any{"a": []any{1, 2.5, true, nil}}},
		},
		"/team/kv/prod": {"x": "teamkv"},
		"/one/prod/":    {"db_password": "from-one", "multi": map[string]any{"a": "1", "b": "2"}, "nope": nil},
	} {
		values, err := ask(t, env, []string{"vault=" + server.URL + at}, slices.Collect(maps.Keys(want))...)
		if err != nil {
			t.Errorf("%s: %v", at, err)
		}
		for name, value := range want {
			if !reflect.DeepEqual(values[name], value) {
				t.Errorf("%s: %s is %v, want %v", at, name, values[name], value)
			}
		}
	}
	// The address and the token may come from files or variables that the server's own
	// clients use.
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".vault-token"), []byte("root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := ask(t, append(env, "VAULT_TOKEN=", "HOME="+home, "VAULT_ADDR=https://wrong.test", "BAO_ADDR="+server.URL), []string{"vault=secret/prod"}, "db_password", "..", "/")
	if err != nil || values["db_password"] != "pässw0rd-1" || len(values) != 1 {
		t.Errorf("by the environment: %v, %v", values, err)
	}
	for at, want := range map[string]string{
		"/nothing/prod": `cannot get the variable ((x)) from vault=` + server.URL + `/nothing/prod: the server answers 404 Not Found: no handler for route "nothing/data/prod/x". route entry not found.`,
		"/sys":          "sys/ is a mount of the type system, not a key-value engine",
	} {
		if _, err := ask(t, env, []string{"vault=" + server.URL + at}, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
	reader := append(env, "BAO_TOKEN=reader")
	for at, name := range map[string]string{"/secret/other": "shared", "/one/prod": "x"} {
		_, err := ask(t, reader, []string{"vault=" + server.URL + at}, name)
		if err == nil || !strings.Contains(err.Error(), "answers 403 Forbidden: 1 error occurred: * permission denied; is the token valid") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestVaultNamespace(t *testing.T) {
	t.Parallel()
	server := serve(t, "vault.json", func(r *http.Request) string { return r.Header.Get("X-Vault-Namespace") })
	values, err := ask(t, environ(server, "VAULT_NAMESPACE=root"), []string{"vault=" + server.URL + "/secret/prod"}, "db_password")
	if err != nil || values["db_password"] != "pässw0rd-1" {
		t.Errorf("%v, %v", values, err)
	}
}

func TestCredHub(t *testing.T) {
	t.Parallel()
	server := serve(t, "credhub.json", func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") })
	want := map[string]any{
		"a_password": "6mRPZB3bAfb8lRpacnXsHfDhlPqFcjH2h9YDvLpL", "a_value": "some-value", "none": nil, "no_version": nil,
		"a_json":                map[string]any{"is_true": true, "key": 123, "key_list": []any{"val1", "val2"}},
		"a_user":                map[string]any{"username": "first-username", "password": "dummy_password", "password_hash": "$6$kjhlkjh$lkjhasdflkjhasdflkjh"},
		"/shared/a_certificate": map[string]any{"ca": "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----", "certificate": "-----BEGIN CERTIFICATE-----\n....\n-----END CERTIFICATE-----", "private_key": "some-private-key"},
		"an_rsa":                map[string]any{"public_key": "public-key", "private_key": "private-key"},
		"an_ssh":                map[string]any{"public_key": "public-key", "private_key": "private-key", "public_key_fingerprint": "public-key-fingerprint"},
	}
	for source, env := range map[string][]string{
		"credhub=" + server.URL + "/prod/web/": environ(server),
		"credhub=prod/web":                     environ(server, "CREDHUB_SERVER="+server.URL),
	} {
		values, err := ask(t, env, []string{source}, slices.Collect(maps.Keys(want))...)
		if err != nil {
			t.Errorf("%s: %v", source, err)
		}
		for name, value := range want {
			if !reflect.DeepEqual(values[name], value) {
				t.Errorf("%s: %s is %v, want %v", source, name, values[name], value)
			}
		}
	}
	for _, lacks := range []string{"CREDHUB_CLIENT=", "CREDHUB_SECRET="} {
		if _, err := ask(t, environ(server, lacks), []string{"credhub=" + server.URL}, "x"); err == nil || !strings.Contains(err.Error(), "set $CREDHUB_CLIENT and $CREDHUB_SECRET") {
			t.Errorf("%s: %v", lacks, err)
		}
	}
}

// misbehaving returns a server that answers all requests correctly until a value is asked
// for, and answers that with wrong.
func misbehaving(t *testing.T, wrong http.HandlerFunc) *httptest.Server {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/info":
			fmt.Fprintf(w, `{"auth-server":{"url":%q}}`, server.URL)
		case r.URL.Path == "/oauth/token":
			_, _ = io.WriteString(w, `{"access_token":"the-token"}`)
		case strings.HasPrefix(r.URL.Path, "/v1/sys/"):
			_, _ = io.WriteString(w, `{"data":{"path":"secret/","type":"kv","options":{"version":"2"}}}`)
		default:
			wrong(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 200ms"},
		"error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "<html>oops")
		}, "the server answers 500 Internal Server Error"},
		"explained": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"errors":["sealed\u001b[31m"]}`)
		}, "the server answers 503 Service Unavailable: sealed"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
			"it redirects to " + strings.TrimPrefix(other.URL, "https://")},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data": s3cret`) }, "the answer has no data"},
		"no data": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"s3cret": []}`) }, "the answer has no data"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer/1024 + 1 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}, "the answer is larger than the limit of 2 MiB"},
		"half": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"data":`)
		}, "the answer ends early"},
	} {
		server := misbehaving(t, c.answer)
		for _, source := range []string{"vault=" + server.URL + "/secret", "credhub=" + server.URL} {
			s := made(t, environ(server), source)
			if name == "silent" {
				s.time = 200 * time.Millisecond
			}
			_, err := s.Ask(t.Context(), []string{"x"})
			if failed, ok := errors.AsType[*Error](err); !ok || failed.Source != source || failed.Variable != "x" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: %v, want %s", name, source, err, c.want)
			} else if strings.Contains(err.Error(), "s3cret") || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%s: %s: the error shows too much: %q", name, source, err)
			}
		}
	}
	if asked.Load() > 0 {
		t.Errorf("a redirect led to another server")
	}
}

func TestUntrustedServers(t *testing.T) {
	t.Parallel()
	server := misbehaving(t, func(http.ResponseWriter, *http.Request) {})
	unknown, _, _ := strings.Cut(strings.Join(environ(server), "\x00"), "CREDHUB_CA_CERT")
	env := append(strings.Split(strings.TrimSuffix(unknown, "\x00"), "\x00"), "VAULT_TOKEN=root", "CREDHUB_CLIENT=ci", "CREDHUB_SECRET=x")
	for source, variable := range map[string]string{"vault=" + server.URL + "/secret": "VAULT_CACERT", "credhub=" + server.URL: "CREDHUB_CA_CERT"} {
		if _, err := ask(t, env, []string{source}, "x"); err == nil || !strings.Contains(err.Error(), "set $"+variable+" to the CA of the server's certificate") {
			t.Errorf("%s: %v", source, err)
		}
		for value, want := range map[string]string{"/nowhere/ca.pem": "cannot read /nowhere/ca.pem: no such file", "-----BEGIN nothing": "it contains no certificate in PEM"} {
			if _, err := ask(t, append(env, variable+"="+value), []string{source}, "x"); err == nil || !strings.Contains(err.Error(), "cannot use $"+variable+": "+want) {
				t.Errorf("%s: %v", source, err)
			}
		}
	}
	// The token of a client must not be sent to a UAA server without TLS.
	plain := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"auth-server":{"url":"http://uaa.test:8443"}}`)
	}))
	defer plain.Close()
	if _, err := ask(t, environ(plain), []string{"credhub=" + plain.URL}, "x"); err == nil || !strings.Contains(err.Error(), "names no https:// address of a UAA server") {
		t.Error(err)
	}
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/info" {
			fmt.Fprintf(w, `{"auth-server":{"url":%q}}`, server.URL)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized","error_description":"Bad credentials"}`)
	}))
	defer server.Close()
	_, err := ask(t, environ(server), []string{"credhub=" + server.URL}, "one", "two", "three")
	want := "cannot get the variable ((one)) and 2 others from credhub=" + server.URL + ": cannot log in at " + strings.TrimPrefix(server.URL, "https://") +
		" as the client ci of $CREDHUB_CLIENT: the server answers 401 Unauthorized: Bad credentials"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"vault=https://host:8200/secret": "", "vault=secret/prod": "", "vault=http://127.0.0.1:8200/secret": "", "credhub=https://host": "", "credhub=/a/b": "",
		"exec=./get": "", "sops=a=b.yml": "",
		"": "want one of credhub=", "vault": "want one of", "exec=": "want one of", "aws=x": "want one of",
		"vault=https://host":              "lacks the mount",
		"vault=http://host/secret":        "want https://",
		"credhub=ftp://host/a":            "want https://",
		"vault=https://me:s3cret@host/kv": "only a host and a path",
		"vault=https://host/kv?s3cret=1":  "only a host and a path",
		"credhub=https://ho st/s3cret":    "want a URL",
		"credhub=https://":                "want a URL",
	} {
		err := Check(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows a secret: %v", text, err)
		}
	}
}

// counted is a source in memory.
type counted struct {
	values map[string]any
	fails  string // name of the variable at which it fails
	mu     sync.Mutex
	asked  []string
	now    int
	most   int
	gate   chan struct{} // find waits until it is closed; nil: it does not wait
}

func (c *counted) open(context.Context) error { return nil }

func (c *counted) find(ctx context.Context, name string) (any, error) {
	c.mu.Lock()
	c.asked = append(c.asked, name)
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	if c.gate != nil {
		<-c.gate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	if name == c.fails {
		return nil, errors.New("no")
	}
	return c.values[name], nil
}

func TestOrder(t *testing.T) {
	t.Parallel()
	first, second := &counted{values: map[string]any{"a": "1", "b": ""}}, &counted{values: map[string]any{"a": "2", "c": map[string]any{"k": "3"}}}
	s := made(t, nil)
	s.list = []opened{{source: first, name: "first"}, {source: second, name: "second"}}
	for range 2 { // The second time, all values are known.
		got, err := s.Ask(t.Context(), []string{"a", "b", "c", "d"})
		want := map[string]document.Answer{"a": {Source: "first", Value: "1"}, "b": {Source: "first", Value: ""}, "c": {Source: "second", Value: map[string]any{"k": "3"}}}
		if err != nil || !reflect.DeepEqual(got.Values, want) || !slices.Equal(got.Asked, []string{"first", "second"}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	slices.Sort(first.asked)
	slices.Sort(second.asked)
	if !slices.Equal(first.asked, []string{"a", "b", "c", "d"}) || !slices.Equal(second.asked, []string{"c", "d"}) {
		t.Errorf("asked: %v and %v", first.asked, second.asked)
	}
}

func TestFailureHidesWhatArrived(t *testing.T) {
	t.Parallel()
	var hidden []string
	s := made(t, nil)
	s.config.Secret = func(values ...string) { hidden = append(hidden, values...) }
	s.list = []opened{{source: &counted{values: map[string]any{"a": map[string]any{"username": "bob", "keys": []any{"s3cret", 1}}}}, name: "first"},
		{source: &counted{fails: "b"}, name: "second"}}
	_, err := s.Ask(t.Context(), []string{"a", "b"})
	if err == nil || err.Error() != "cannot get the variable ((b)) from second: no" || !slices.Equal(hidden, []string{"s3cret"}) {
		t.Errorf("%v, hidden: %q", err, hidden)
	}
	if got, err := s.Ask(t.Context(), []string{"a"}); err != nil || len(got.Values) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestManyVariables(t *testing.T) {
	t.Parallel()
	c := &counted{values: map[string]any{}, gate: make(chan struct{})}
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("v%d", i))
		c.values[names[i]] = i
	}
	s := made(t, nil)
	s.list = []opened{{source: c, name: "many"}}
	go func() {
		for range names {
			c.gate <- struct{}{}
		}
	}()
	got, err := s.Ask(t.Context(), names)
	if err != nil || len(got.Values) != len(names) || c.most > atOnce {
		t.Errorf("%d values, %d at the same time, %v", len(got.Values), c.most, err)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := misbehaving(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := made(t, environ(server), "vault="+server.URL+"/secret").Ask(ctx, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestProxyAndJumpboxAreUsed(t *testing.T) {
	t.Parallel()
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			through.Add(1)
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	_, err := ask(t, []string{"VAULT_TOKEN=x", "https_proxy=" + proxy.URL}, []string{"vault=https://vault.test/secret"}, "x")
	if err == nil || through.Load() == 0 {
		t.Errorf("%d requests, %v", through.Load(), err)
	}
	s := made(t, []string{"CREDHUB_CLIENT=x", "CREDHUB_SECRET=x"}, "credhub=https://credhub.test:8844")
	dialed := ""
	s.list[0].source.(*credhub).config.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = address
		return nil, errors.New("the jumpbox refuses")
	}
	if _, err := s.Ask(t.Context(), []string{"x"}); err == nil || !strings.HasSuffix(err.Error(), ": the jumpbox refuses") || dialed != "credhub.test:8844" {
		t.Errorf("dialed %s, %v", dialed, err)
	}
}
