package reach

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bootstrap/agent"
)

// oneTimeSOCKS is a SOCKS5 server for one client. It connects the client to the requested
// host, and returns the name of that host.
func oneTimeSOCKS(t *testing.T, to string) (address string, wanted <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	names, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		greeting := make([]byte, 3) // the bytes: version, number of methods, no authentication
		if _, err := io.ReadFull(c, greeting); err != nil {
			return
		}
		_, _ = c.Write([]byte{5, 0})
		head := make([]byte, 5) // the bytes: version, connect, reserved, a name, its length
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		rest := make([]byte, int(head[4])+2)
		if _, err := io.ReadFull(c, rest); err != nil {
			return
		}
		names <- string(rest[:head[4]])
		up, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer up.Close()
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		back := make(chan struct{})
		go func() {
			defer close(back)
			_, _ = io.Copy(c, up)
			c.Close()
		}()
		_, _ = io.Copy(up, c)
		up.Close()
		<-back
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), names
}

// The agent is reached through the SOCKS proxy of BOSH_ALL_PROXY, as with create-env,
// unless NO_PROXY contains its host.
func TestThroughSOCKS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"value":"pong"}`)
	}))
	defer server.Close()
	to := server.Listener.Addr().String()
	socks, wanted := oneTimeSOCKS(t, to)
	env := map[string]string{"BOSH_ALL_PROXY": "socks5://" + socks, "NO_PROXY": "127.0.0.1"}
	options := RouteOptions{Getenv: func(name string) string { return env[name] }}
	route, err := OpenRoute(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"far.internal:6868", to} {
		a, err := agent.New(agent.Config{URL: "https://u:p@" + host, Dial: route.Dial})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		a.Close()
	}
	if got := <-wanted; got != "far.internal" {
		t.Errorf("the proxy was asked for %q", got)
	}

	for _, all := range []string{"gopher://me:s3cret@host", "ssh+socks5://me:s3cret@", "http://s3cret"} {
		env["BOSH_ALL_PROXY"] = all
		if _, err := OpenRoute(t.Context(), options); err == nil || !strings.Contains(err.Error(), "BOSH_ALL_PROXY") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", all, err)
		}
	}
}
