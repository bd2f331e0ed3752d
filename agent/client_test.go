package agent_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"bootstrap/agent"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, url, ca, want string }{
		{"nothing", "", "", "want https://user:password@host:port"},
		{"nats", "nats://nats:secret@10.0.0.1:4222", "", "want https://"},
		{"no host", "https://", "", "want https://"},
		{"no URL", "https://mbus:sec%zzret@10.0.0.1:6868", "", "it is not a URL"},
		{"port", "https://mbus:secret@10.0.0.1:6868x", "", "it is not a URL"},
		{"CA", "https://mbus:secret@10.0.0.1:6868", "secret, not a PEM", "no certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := agent.New(agent.Config{URL: test.url, CA: test.ca})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "sec") {
				t.Errorf("got %v, want %q and no secret", err, test.want)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a:b@10.0.0.1:6868": "10.0.0.1:6868",
		"https://a:b@[fd00::1]:1/":  "[fd00::1]:1",
		"https://agent.test":        "agent.test:443",
	} {
		c, err := agent.New(agent.Config{URL: text})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Address(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// The client sends the same bytes to agents as other tools do.
func TestWire(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	type seen struct{ path, auth, kind, body string }
	got := make(chan seen, 1)
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, pw, _ := r.BasicAuth()
		got <- seen{r.Method + " " + r.RequestURI, user + " " + pw, r.Header.Get("Content-Type"), string(body)}
		_, _ = io.WriteString(w, `{"value":"pong"}`)
	}))
	for _, suffix := range []string{"", "/"} {
		c := newClient(t, agent.Config{URL: address + suffix, CA: ca.pem, ReplyTo: "director"})
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := seen{"POST /agent", "mbus " + password, "application/json", `{"method":"ping","arguments":[],"reply_to":"director"}`}
		if s := <-got; s != want {
			t.Errorf("got %q, want %q", s, want)
		}
	}
}

func TestUnverified(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	// Without a CA no certificate is checked, not even its name.
	address := serve(t, ca.issue(t, -2000, -1000, "elsewhere"), messages(t, pong))
	c := newClient(t, agent.Config{URL: address})
	if err := c.Ping(t.Context()); err != nil || !c.Unverified() {
		t.Errorf("got %v, %v, want a pong from an unverified agent", err, c.Unverified())
	}
	if c = newClient(t, agent.Config{URL: address, CA: ca.pem}); c.Unverified() || c.Ping(t.Context()) == nil {
		t.Error("the CA is not used")
	}
}

// The client uses the proxy of its configuration, and ignores the proxy of the
// environment, which TestMain sets.
func TestProxy(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := serve(t, ca.good(t), messages(t, pong))
	target := strings.Split(address, "@")[1]
	var connects atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if connects.Add(1) > 1 {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		up, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer down.Close()
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.Copy(up, down); up.Close() }()
		_, _ = io.Copy(down, up)
		down.Close()
		<-done
	}))
	t.Cleanup(proxy.Close)
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := agent.Config{URL: mbus("agent.test:6868"), CA: ca.pem, Proxy: http.ProxyURL(proxyURL)}
	c := newClient(t, cfg)
	if err := c.Ping(t.Context()); err != nil || connects.Load() != 1 {
		t.Fatalf("got %v after %d proxied connections", err, connects.Load())
	}
	c.Close()
	var silent *agent.UnreachableError
	if err := c.Ping(t.Context()); !errors.As(err, &silent) || silent.Last.Cause != agent.Proxy || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("got %v, want the proxy's refusal", err)
	}
	proxy.Close()
	if err := c.Ping(t.Context()); !errors.As(err, &silent) || silent.Last.Cause != agent.Proxy {
		t.Errorf("got %v, want that the proxy is down", err)
	}
	cfg.Proxy = nil
	cfg.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != "agent.test:6868" {
			t.Errorf("dials %s", to)
		}
		return new(net.Dialer).DialContext(ctx, network, target)
	}
	if err := newClient(t, cfg).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// The agent's password is not sent to the target of a redirect.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/agent" {
			t.Errorf("followed to %s", r.URL)
		}
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	}))
	err := newClient(t, agent.Config{URL: address, CA: ca.pem}).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("got %v, want status 307", err)
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	texts := map[string]string{
		"apply":       "Action Failed apply: Getting spec: file is gone",
		"no_such":     "unknown message no_such",
		"ping":        "Action Failed ping: your password is " + password + " and your token is TOKEN",
		"info":        "",
		"list_disk":   "Action Failed get_task: Task 7 result: Action Failed list_disk: inner",
		"run_script":  "mbus:p%2Fa:s+s%23w0rd@h and bWJ1czpwL2E6cytzI3cwcmQ=",
		"update_disk": "multi\nline",
	}
	address := serve(t, ca.good(t), messages(t, func(r agent.Request) (any, error) { return nil, errors.New(texts[r.Method]) }))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem, Redact: func(s string) string { return strings.ReplaceAll(s, "TOKEN", "***") }})
	for method, want := range map[string]string{
		"apply":       "Getting spec: file is gone",
		"no_such":     "unknown message no_such",
		"ping":        "your password is *** and your token is ***",
		"info":        "(nothing)",
		"list_disk":   "Action Failed list_disk: inner",
		"run_script":  "mbus:***@h and ***",
		"update_disk": "multi\nline",
	} {
		_, err := c.Call(t.Context(), method)
		var e *agent.Error
		if !errors.As(err, &e) || e.Message != want || e.Method != method {
			t.Errorf("%s: got %v, want %q", method, err, want)
		}
		if agent.UnknownMessage(err) != (method == "no_such") {
			t.Errorf("%s: UnknownMessage is %v", method, agent.UnknownMessage(err))
		}
		if want := "cannot do " + method + ": the agent says: " + want; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if agent.UnknownMessage(nil) || agent.UnknownMessage(errors.New("unknown message x")) {
		t.Error("UnknownMessage is true for what no agent said")
	}
}

// A reply that does not come from an agent is reported briefly and without secrets.
func TestGarbage(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var body atomic.Value
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, body.Load().(string))
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	for _, text := range []string{
		"", "null", "{}", "[]", `"value"`, `{"value":"pong"`, `{"value":"pong"} rest`, `{"exception":"text"}`, `{"exception":5}`,
		"<html>\n<body>\x00\xff" + password + strings.Repeat("long ", 1000),
	} {
		body.Store(text)
		err := c.Ping(t.Context())
		var silent *agent.UnreachableError
		if !errors.As(err, &silent) || silent.Last.Cause != agent.NotAnAgent {
			t.Fatalf("%.40q: got %v, want that it is no agent", text, err)
		}
		if strings.Contains(err.Error(), password) || len(err.Error()) > 600 {
			t.Errorf("the error shows too much: %q", err)
		}
	}
	for _, text := range []string{`{"value":5}`, `{"value":{"a":1}}`, `{"value":null}`, `{"value":"ping"}`} {
		body.Store(text)
		if err := c.Ping(t.Context()); err == nil {
			t.Errorf("%s counts as pong", text)
		}
	}
	body.Store(`{"value":5}`)
	for name, call := range map[string]func(*agent.Client) error{
		"start": func(c *agent.Client) error { return c.Start(t.Context()) },
		"state": func(c *agent.Client) error { _, err := c.GetState(t.Context(), false); return err },
		"disks": func(c *agent.Client) error { _, err := c.ListDisk(t.Context()); return err },
		"compile": func(c *agent.Client) error {
			_, err := c.CompilePackage(t.Context(), agent.CompileRequest{})
			return err
		},
		"logs": func(c *agent.Client) error { _, err := c.FetchLogs(t.Context(), "job", nil); return err },
		"ssh":  func(c *agent.Client) error { _, err := c.SetupSSH(t.Context(), "u", "k"); return err },
	} {
		if err := call(c); err == nil {
			t.Errorf("%s takes 5 for an answer", name)
		}
	}
	body.Store(`{"value":{}}`)
	if _, err := c.CompilePackage(t.Context(), agent.CompileRequest{}); err == nil {
		t.Error("a compiled package without a blob is taken")
	}
	if _, err := c.FetchLogs(t.Context(), "job", nil); err == nil {
		t.Error("logs without a blob are taken")
	}
}

// Every status except 200 is an error that names the status.
func TestStatuses(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var status atomic.Int32
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"value":"pong"}`)
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	for code, cause := range map[int]agent.Cause{
		201: agent.Status, 204: agent.Status, 302: agent.Status, 400: agent.Status, 401: agent.Unauthorized,
		404: agent.Status, 500: agent.Status, 502: agent.Status,
	} {
		status.Store(int32(code))
		err := c.Ping(t.Context())
		var silent *agent.UnreachableError
		if !errors.As(err, &silent) || silent.Last.Cause != cause || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: got %v, want %s", code, err, cause)
		}
	}
}

// All messages of a run use one connection.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	listener := &counting{Listener: listen(t)}
	cert := ca.good(t)
	serveOn(t, listener, func() tls.Certificate { return cert }, messages(t, pong))
	c := newClient(t, agent.Config{URL: mbus(listener.Addr().String()), CA: ca.pem})
	for range 20 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := listener.accepted.Load(); n != 1 {
		t.Errorf("%d connections for 20 messages", n)
	}
}

type counting struct {
	net.Listener
	accepted atomic.Int32
}

func (l *counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

// A message that the agent may have received is not sent again, and the error says so.
func TestNotRepeated(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var heard atomic.Int32
	address := serve(t, ca.good(t), messages(t, func(r agent.Request) (any, error) {
		if r.Method == "ping" {
			return "pong", nil
		}
		heard.Add(1)
		panic(http.ErrAbortHandler)
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := c.Apply(t.Context(), agent.Spec{})
	var silent *agent.UnreachableError
	if !errors.As(err, &silent) || silent.Last.Cause != agent.Reset || !silent.Sent || !strings.Contains(err.Error(), "may have received the message") {
		t.Errorf("got %v, want that the agent may have received it", err)
	}
	if heard.Load() != 1 {
		t.Errorf("sent %d times", heard.Load())
	}
}

// If the agent has closed an idle connection, a message that only asks for something is
// sent again.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		// The answer keeps the connection open.
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"value\":\"pong\"}")
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	for i := range 20 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping %d: %v", i, err)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := serve(t, ca.good(t), messages(t, func(r agent.Request) (any, error) {
		if r.Method == "get_task" {
			return r.Arguments[0], nil
		}
		return agent.Task{ID: r.Method, State: "running"}, nil
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	results := make(chan error)
	for i := range 20 {
		go func() {
			method := fmt.Sprintf("m%d", i)
			value, err := c.Call(t.Context(), method)
			if err == nil && string(value) != `"`+method+`"` {
				err = fmt.Errorf("%s gets the result %s", method, value)
			}
			results <- err
		}()
	}
	for range 20 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"value":"pong"}`, `{"value":{"agent_task_id":"x","state":"running"}}`, `{"exception":{"message":"m"}}`, `{"value":null}`,
		`{"value":{"job_state":"running","index":null,"job":{"name":null,"templates":null},"rendered_templates_archive":null}}`,
		`{"value":["a"]}`, `{"value":{"result":{"sha1":"a","blobstore_id":"b"}}}`, `{"value":-3}`, `{`, ``, `[[[[`, "{\"value\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	ca := newAuthority(f)
	var body atomic.Value
	address := serve(f, ca.good(f), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request agent.Request
		_ = json.NewDecoder(r.Body).Decode(&request)
		if request.Method == "get_task" {
			_, _ = io.WriteString(w, `{"exception":{"message":"done"}}`)
			return
		}
		_, _ = w.Write(body.Load().([]byte))
	}))
	c := newClient(f, agent.Config{URL: address, CA: ca.pem})
	f.Fuzz(func(t *testing.T, reply []byte) {
		body.Store(reply)
		ctx := t.Context()
		_, callErr := c.Call(ctx, "anything")
		var well struct {
			Value     any              `json:"value"`
			Exception *agent.Exception `json:"exception"`
		}
		if json.Unmarshal(reply, &well) == nil && callErr == nil && well.Exception != nil {
			t.Errorf("%q: the exception is lost", reply)
		}
		state, err := c.GetState(ctx, true)
		if err != nil && !reflect.DeepEqual(state.Processes, []agent.Process(nil)) && callErr != nil {
			t.Errorf("%q: a state with the error %v", reply, err)
		}
		_, _ = c.ListDisk(ctx)
		if blob, err := c.CompilePackage(ctx, agent.CompileRequest{}); err == nil && blob.BlobstoreID == "" {
			t.Errorf("%q: a blob without an id", reply)
		}
		if err := c.Stop(ctx); (err == nil) != (callErr == nil) {
			t.Errorf("%q: stop %v, call %v", reply, err, callErr)
		}
	})
}

func BenchmarkPing(b *testing.B) {
	ca := newAuthority(b)
	address := serve(b, ca.good(b), messages(b, pong))
	c := newClient(b, agent.Config{URL: address, CA: ca.pem})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPingNewConnection(b *testing.B) {
	ca := newAuthority(b)
	address := serve(b, ca.good(b), messages(b, pong))
	c := newClient(b, agent.Config{URL: address, CA: ca.pem})
	for b.Loop() {
		if err := c.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
