package tunnel

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
)

// Jump makes connections from another machine. It logs in to that machine by SSH for the
// first connection.
type Jump struct {
	cfg Config

	mu     sync.Mutex
	auth   *auth
	client *ssh.Client
	ended  func() // ends the goroutine that watches client, and waits for it
	closed bool
}

// NewJump returns a Jump through cfg's machine. It ignores Remote and the timeouts.
func NewJump(cfg Config) *Jump {
	cfg.setDefaults()
	return &Jump{cfg: cfg}
}

// ParseJump reads the form of BOSH_ALL_PROXY that create-env accepts:
// ssh+socks5://user@host:port?private-key=path.
func ParseJump(text string, getenv func(string) string) (Config, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ssh+socks5" || u.Hostname() == "" || u.User.Username() == "" {
		// The value may contain a password.
		return Config{}, fmt.Errorf("use a URL such as ssh+socks5://user@host:22?private-key=/path/of/key")
	}
	return fromURL(u, getenv)
}

// DialContext connects to address from the other machine. If the connection to that
// machine was lost, it connects again, once.
func (j *Jump) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	client, fresh, err := j.enter(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := client.DialContext(ctx, network, address)
	if err == nil || fresh || ctx.Err() != nil {
		return j.explain(conn, address, err)
	}
	if _, _, alive := client.SendRequest("keepalive@openssh.com", true, nil); alive == nil {
		return j.explain(conn, address, err)
	}
	j.forget(client)
	if client, _, err = j.enter(ctx); err != nil {
		return nil, err
	}
	conn, err = client.DialContext(ctx, network, address)
	return j.explain(conn, address, err)
}

func (j *Jump) explain(conn net.Conn, address string, err error) (net.Conn, error) {
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s from %s: %w", address, j.cfg.address(), err)
	}
	return conn, nil
}

// enter returns the connection to the machine. It logs in if there is none.
func (j *Jump) enter(ctx context.Context) (client *ssh.Client, fresh bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, false, net.ErrClosed
	}
	if j.client != nil {
		return j.client, false, nil
	}
	if j.auth == nil {
		if j.auth, err = newAuth(j.cfg); err != nil {
			return nil, false, fmt.Errorf("cannot log in to %s by SSH: %w", j.cfg.address(), err)
		}
	}
	if j.client, err = j.auth.dial(ctx); err != nil {
		return nil, false, fmt.Errorf("cannot log in to %s by SSH: %w", j.cfg.address(), err)
	}
	j.ended = watch(ctx, j.client, j.cfg.KeepAlive)
	return j.client, true, nil
}

// watch ends a connection when the other side does not answer, because everything that
// uses the connection would hang.
func watch(ctx context.Context, client *ssh.Client, every time.Duration) (end func()) {
	stop := make(chan struct{})
	done := guard.Start(ctx, func() error { return keepAlive(ctx, client, every, stop) })
	return func() {
		close(stop)
		_ = client.Close()
		<-done
	}
}

func (j *Jump) forget(client *ssh.Client) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client == client {
		j.ended()
		j.client = nil
	}
}

// Close ends all connections.
func (j *Jump) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.client == nil {
		return nil
	}
	j.ended()
	j.client = nil
	return nil
}
