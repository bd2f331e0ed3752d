package sshd

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
)

// forwards are the ports that clients forward to the VM. They exist only in this process:
// they replace a loopback interface of the VM's own.
type forwards struct {
	mu    sync.Mutex
	ports map[uint32]forward
	event chan struct{} // closed at the next change
}

type forward struct {
	conn    *ssh.ServerConn
	address string // the client's spelling, for replies
}

func newForwards() *forwards {
	return &forwards{ports: map[uint32]forward{}, event: make(chan struct{})}
}

// changed is closed when a port is added.
func (f *forwards) changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.event
}

// add forwards a port to a client and returns the port; 0 chooses a free one. If several
// clients ask for the same port, the newest one gets it, because the connections of older
// ones are mostly dead.
func (f *forwards) add(conn *ssh.ServerConn, r forwardRequest) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	port := r.Port
	for free := uint32(49152); port == 0; free++ {
		if _, taken := f.ports[free]; !taken {
			port = free
		}
	}
	f.ports[port] = forward{conn, r.Address}
	close(f.event)
	f.event = make(chan struct{})
	return port
}

func (f *forwards) remove(conn *ssh.ServerConn, port uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ports[port].conn != conn {
		return false
	}
	delete(f.ports, port)
	return true
}

func (f *forwards) removeAll(conn *ssh.ServerConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for port, forward := range f.ports {
		if forward.conn == conn {
			delete(f.ports, port)
		}
	}
}

// dial connects to a forwarded port, and to nothing else.
func (f *forwards) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !loopback(host) {
		return nil, fmt.Errorf("%s cannot be reached from the VM, only ports forwarded to its loopback address", address)
	}
	f.mu.Lock()
	to, found := f.ports[uint32(port)]
	f.mu.Unlock()
	if !found {
		return nil, fmt.Errorf("no client forwards port %d to the VM", port)
	}
	type opened struct {
		channel  ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	result := make(chan opened, 1)
	guard.Go(ctx, func() {
		channel, requests, err := to.conn.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
			Address    string
			Port       uint32
			Origin     string
			OriginPort uint32
		}{to.address, uint32(port), "127.0.0.1", 1}))
		if err == nil {
			guard.Go(ctx, func() { ssh.DiscardRequests(requests) })
		}
		result <- opened{channel, requests, err}
	})
	select {
	case o := <-result:
		if o.err != nil {
			return nil, fmt.Errorf("the forwarded port %d does not answer: %w", port, o.err)
		}
		return &forwarded{o.channel, address}, nil
	case <-ctx.Done():
		// The channel is closed with its connection at the latest.
		guard.Go(ctx, func() {
			if o := <-result; o.err == nil {
				o.channel.Close()
			}
		})
		return nil, ctx.Err()
	}
}

// Dial connects to a port that a client forwards to the VM, and to nothing else.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.forwards.dial(ctx, network, address)
}

// Changed returns a channel that is closed when the next port is forwarded.
func (s *Server) Changed() <-chan struct{} { return s.forwards.changed() }

// forwardRequest is the payload of tcpip-forward and its cancellation.
type forwardRequest struct {
	Address string
	Port    uint32
}

// answer forwards a port to the VM for the image's user; it refuses other requests.
func (s *Server) answer(conn *ssh.ServerConn, r *ssh.Request) {
	var f forwardRequest
	ok, payload := false, []byte(nil)
	switch {
	case !s.isImageUser(conn.User()) || r.Type != "tcpip-forward" && r.Type != "cancel-tcpip-forward":
	case ssh.Unmarshal(r.Payload, &f) != nil:
	case r.Type == "cancel-tcpip-forward":
		ok = s.forwards.remove(conn, f.Port)
	case f.Port <= 65535 && loopback(f.Address):
		port := s.forwards.add(conn, f)
		ok = true
		if f.Port == 0 {
			payload = ssh.Marshal(struct{ Port uint32 }{port})
		}
		s.cfg.Log.Info("a port was forwarded to the VM", "port", port)
	}
	if r.WantReply {
		_ = r.Reply(ok, payload)
	}
}

// loopback reports whether an address that a client forwards is on the VM's
// loopback interface.
func loopback(address string) bool {
	if address == "" || address == "localhost" || address == "*" {
		return true
	}
	ip := net.ParseIP(address)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// forwarded is a connection through a forwarded port.
type forwarded struct {
	ssh.Channel
	address string
}

// LocalAddr is the VM's loopback address.
func (f *forwarded) LocalAddr() net.Addr { return forwardedAddr("127.0.0.1:1") }

// RemoteAddr is the forwarded port.
func (f *forwarded) RemoteAddr() net.Addr { return forwardedAddr(f.address) }

// SetDeadline does nothing: requests end by closing the connection.
func (f *forwarded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (f *forwarded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }

type forwardedAddr string

// Network returns the network of the port.
func (forwardedAddr) Network() string { return "tcp" }

func (a forwardedAddr) String() string { return string(a) }
