package queue

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// proxy forwards connections to a server, and breaks one on request.
type proxy struct {
	mu   sync.Mutex
	next *breakRequest
	open map[net.Conn]bool
}

// breakRequest is a request to break a connection: after the client has sent text and then at,
// the server's answer to at is not forwarded.
type breakRequest struct {
	text, at string
	conn     net.Conn // the connection that has sent text
	done     chan struct{}
}

// newProxy returns a proxy in front of a server's socket, and its URL.
func newProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	query := u.Query()
	server := filepath.Join(query.Get("host"), socket)
	dir, err := os.MkdirTemp("", "px") // a socket has no long path
	if err != nil {
		t.Fatal(err)
	}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", server)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.open[client], p.open[server] = true, true
			p.mu.Unlock()
			broken := make(chan chan struct{}, 1)
			all.Go(func() { p.requests(client, server, broken) })
			all.Go(func() { p.answers(client, server, broken) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		for conn := range p.open {
			conn.Close()
		}
		p.mu.Unlock()
		all.Wait()
		os.RemoveAll(dir)
	})
	return p, u.String()
}

// breakAfter requests a break. The channel is closed when it has happened.
func (p *proxy) breakAfter(text, at string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = &breakRequest{text: text, at: at, done: make(chan struct{})}
	return p.next.done
}

func (p *proxy) close(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range []net.Conn{client, server} {
		conn.Close()
		delete(p.open, conn)
	}
}

// requests forwards what a client sends.
func (p *proxy) requests(client, server net.Conn, broken chan<- chan struct{}) {
	defer p.close(client, server)
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		switch c := p.next; {
		case c == nil:
		case c.conn == client && bytes.Contains(buffer[:n], []byte(c.at)):
			p.next = nil
			broken <- c.done
		case c.conn == nil && bytes.Contains(buffer[:n], []byte(c.text)):
			c.conn = client
		}
		p.mu.Unlock()
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answers forwards what the server sends.
func (p *proxy) answers(client, server net.Conn, broken <-chan chan struct{}) {
	defer p.close(client, server)
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		select {
		case done := <-broken:
			close(done)
			return
		default:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
