package local

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// forwards are the ports that SSH clients forwarded to the VM: its loopback
// interface, as far as this process is concerned.
type forwards struct {
	mu    sync.Mutex
	ports map[uint32]forward
	event chan struct{} // closed at the next change
}

type forward struct {
	conn    *ssh.ServerConn
	address string // as the client gave it, and wants it back
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

// add makes a port lead to a client, and returns it; port 0 picks one. The
// newest client has it: an older one that asked for the same is dead more
// often than not.
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

// dial connects to a forwarded port. Nothing else can be reached: what the
// VM's loopback is not, no IaaS has told it of either.
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
		return nil, fmt.Errorf("nobody has forwarded port %d to the VM", port)
	}
	type opened struct {
		channel  ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	result := make(chan opened, 1)
	go func() {
		channel, requests, err := to.conn.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
			Address    string
			Port       uint32
			Origin     string
			OriginPort uint32
		}{to.address, uint32(port), "127.0.0.1", 1}))
		if err == nil {
			go ssh.DiscardRequests(requests)
		}
		result <- opened{channel, requests, err}
	}()
	select {
	case o := <-result:
		if o.err != nil {
			return nil, fmt.Errorf("the forwarded port %d does not answer: %w", port, o.err)
		}
		return &forwarded{o.channel, address}, nil
	case <-ctx.Done():
		// The channel ends with its connection at the latest.
		go func() {
			if o := <-result; o.err == nil {
				o.channel.Close()
			}
		}()
		return nil, ctx.Err()
	}
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

// Network is that of the port.
func (forwardedAddr) Network() string { return "tcp" }

func (a forwardedAddr) String() string { return string(a) }
