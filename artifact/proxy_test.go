package artifact

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/proxy"
)

func TestProxies(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1000)
	var target atomic.Value
	httpProxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		target.Store(r.URL.Host)
		content(w, r, "", data)
	})
	direct := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "127.") {
			target.Store("direct")
		}
		content(w, r, "", data)
	})
	socks := socksServer(t, direct.Listener.Addr().String(), &target)
	local := strings.TrimPrefix(direct.URL, "http://")
	for name, c := range map[string]struct {
		env   map[string]string
		url   string
		via   string
		fails string
	}{
		"http":                {map[string]string{"HTTP_PROXY": httpProxy.URL}, "http://far.example/x", "far.example", ""},
		"small letters":       {map[string]string{"http_proxy": httpProxy.URL}, "http://far.example/x", "far.example", ""},
		"host and port":       {map[string]string{"HTTP_PROXY": strings.TrimPrefix(httpProxy.URL, "http://")}, "http://far.example/x", "far.example", ""},
		"excepted":            {map[string]string{"HTTP_PROXY": httpProxy.URL, "no_proxy": "127.0.0.1"}, "http://" + local + "/x", "direct", ""},
		"socks":               {map[string]string{"BOSH_ALL_PROXY": "socks5://" + socks}, "http://far.example:80/x", "socks far.example:80", ""},
		"socks excepted":      {map[string]string{"BOSH_ALL_PROXY": "socks5://" + socks, "NO_PROXY": "127.0.0.1"}, "http://" + local + "/x", "direct", ""},
		"bad http":            {map[string]string{"HTTP_PROXY": "me:secret@/"}, "http://far.example/x", "", "HTTP_PROXY"},
		"the agent's is none": {nil, direct.URL, "direct", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Dir: t.TempDir(), Getenv: func(k string) string { return c.env[k] }}
			if all := c.env["BOSH_ALL_PROXY"]; all != "" {
				var err error
				if cfg.Dial, err = proxy.SOCKS(all, cfg.Getenv); err != nil {
					t.Fatal(err)
				}
			}
			s := Open(cfg)
			s.client.Retry.Pause = time.Millisecond
			_, err := s.Fetch(context.Background(), remote(c.url, data), nil)
			if c.fails != "" {
				tartest.MustFail(t, err, c.fails)
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the error holds a secret: %v", err)
				}
				return
			}
			if err != nil || target.Load() != c.via {
				t.Errorf("went by %v, %v", target.Load(), err)
			}
		})
	}
}

// socksServer is a SOCKS5 server that connects every client to one address.
func socksServer(t *testing.T, to string, target *atomic.Value) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { socksServe(c, to, target) })
		}
	})
	return l.Addr().String()
}

func socksServe(c net.Conn, to string, target *atomic.Value) {
	defer c.Close()
	buf := make([]byte, 300)
	c.Read(buf) // the bytes: version, methods
	c.Write([]byte{5, 0})
	n, _ := c.Read(buf) // the bytes: 5 1 0 3 len name port
	if n < 7 || buf[3] != 3 {
		return
	}
	l := int(buf[4])
	target.Store(fmt.Sprintf("socks %s:%d", buf[5:5+l], int(buf[5+l])<<8|int(buf[6+l])))
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	done := make(chan struct{})
	go func() { defer close(done); up.(*net.TCPConn).ReadFrom(c); up.(*net.TCPConn).CloseWrite() }()
	c.(*net.TCPConn).ReadFrom(up)
	c.Close()
	<-done
}
