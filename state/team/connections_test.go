package team_test

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// cable is a network between a machine and a store.
type cable struct {
	listener net.Listener
	network  string
	to       string

	mu    sync.Mutex
	conns []net.Conn
	dead  map[net.Conn]bool // no data passes any more, and neither end is notified
}

// newCable returns the address of a store behind a cable.
func newCable(t *testing.T, address string) (*cable, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{network: "tcp", to: u.Host, dead: map[net.Conn]bool{}}
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	at, query := c.listener.Addr().String(), u.Query()
	switch u.Scheme {
	case "postgres":
		c.network, c.to = "unix", filepath.Join(query.Get("host"), ".s.PGSQL.5432")
		query.Del("host")
		u.Host = at
	case "s3":
		_, c.to, _ = strings.Cut(query.Get("endpoint"), "://")
		query.Set("endpoint", "http://"+at)
	default:
		u.Host = at
	}
	u.RawQuery = query.Encode()
	go c.run()
	return c, u.String()
}

func (c *cable) run() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial(c.network, c.to)
		if err != nil {
			in.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, in, out)
		c.mu.Unlock()
		go c.carry(in, out, in)
		go c.carry(out, in, in)
	}
}

// carry copies data between the two ends of a connection.
func (c *cable) carry(to, from, of net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		dead := c.dead[of]
		c.mu.Unlock()
		if dead {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			to.Close()
			return
		}
	}
}

// forget makes all connections dead, like a firewall that drops idle ones.
func (c *cable) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		c.dead[conn] = true
	}
}

func (c *cable) close() {
	c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}

// A write uses another connection if a dead one returns no answer.
func testDeadConnections(t *testing.T, address string) {
	c, through := newCable(t, address)
	cfg := config("ann")
	s := open(t, through, cfg)
	lock(t, s)
	version := save(t, s, "one", "")
	c.forget()
	version = save(t, s, "two", version)
	expectState(t, s, "two")
	save(t, s, "three", version)
	unlock(t, s)
}
