package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// A connection is one connection of the tunnel, from its login until it is lost.
type connection struct {
	client   *ssh.Client
	listener net.Listener
}

// close ends the connection first: closing the listener would wait for an answer, which
// never arrives over a dead connection.
func (c *connection) close() {
	_ = c.client.Close()
	_ = c.listener.Close()
}

// How long one attempt may take; a busy new VM can be slow to send its banner.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 30 * time.Second
)

// An authError is a refusal after the key exchange: the server answers, but does
// not accept the login, or not yet.
type authError struct{ err error }

func (e *authError) Error() string { return e.err.Error() }
func (e *authError) Unwrap() error { return e.err }

// A listenError says that the server refused to listen.
type listenError struct{ err error }

func (e *listenError) Error() string { return e.err.Error() }
func (e *listenError) Unwrap() error { return e.err }

// hopeless reports whether waiting cannot help against an error.
func hopeless(err error) bool {
	var negotiation *ssh.AlgorithmNegotiationError
	var hostKey *HostKeyError
	var file *knownHostsError
	return errors.As(err, &negotiation) || errors.As(err, &hostKey) || errors.As(err, &file)
}

// firstConnect tries to connect until one of the deadlines has passed. At first, a new VM
// has no SSH server; then its server does not accept the public key yet.
func (t *Tunnel) firstConnect(ctx context.Context) (*connection, error) {
	var (
		began   = time.Now()
		refused time.Time // time of the first refused login since the server last did not answer
		unheard time.Time // time of the first refusal to listen since then
	)
	for {
		conn, err := t.connectOnce(ctx)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w; last: %v", context.Cause(ctx), err)
		}
		var authErr *authError
		var listenErr *listenError
		now := time.Now()
		switch {
		case hopeless(err):
			return nil, err
		case errors.As(err, &authErr):
			if refused.IsZero() {
				refused = now
			}
			if now.Sub(refused) >= t.cfg.AuthTimeout {
				return nil, fmt.Errorf("%w; this has lasted for %v: check user %q and its private key or password", err, t.cfg.AuthTimeout, t.cfg.User)
			}
		case errors.As(err, &listenErr):
			if unheard.IsZero() {
				unheard = now
			}
			if now.Sub(unheard) >= t.cfg.ListenTimeout {
				return nil, err
			}
		default:
			refused, unheard = time.Time{}, time.Time{}
			if now.Sub(began) >= t.cfg.ConnectTimeout {
				return nil, fmt.Errorf("%w; this has lasted for %v: check address, port and firewall", err, t.cfg.ConnectTimeout)
			}
		}
		t.cfg.Report("waiting for the SSH server at " + t.cfg.address() + ": " + err.Error())
		if wait.For(ctx, retryEvery) != nil {
			return nil, fmt.Errorf("%w; last: %v", context.Cause(ctx), err)
		}
	}
}

// connectOnce makes one attempt.
func (t *Tunnel) connectOnce(ctx context.Context) (*connection, error) {
	client, err := t.auth.dial(ctx)
	if err != nil {
		return nil, err
	}
	// The server may stop answering during this request, too.
	release := closeAfter(ctx, client, handshakeTimeout)
	listener, err := client.Listen("tcp", t.cfg.Remote)
	if !release() && err == nil {
		err = errors.New("no answer in time")
	}
	if err != nil {
		_ = client.Close()
		return nil, &listenError{fmt.Errorf("the SSH server does not listen on %s: %w; check that it allows TCP forwarding and that the port is free on the VM", t.cfg.Remote, err)}
	}
	return &connection{client, listener}, nil
}

// dial connects, checks the host key and authenticates.
func (a *auth) dial(ctx context.Context) (*ssh.Client, error) {
	// The time includes the logins to the machines in between.
	reach, cancel := context.WithTimeout(ctx, dialTimeout+handshakeTimeout)
	defer cancel()
	conn, err := a.cfg.Dial(reach, "tcp", a.cfg.address())
	if err != nil {
		return nil, err
	}
	release := closeAfter(ctx, conn, handshakeTimeout)
	host, err := a.host()
	if err != nil {
		_ = conn.Close()
		release()
		return nil, err
	}
	methods, done := a.methods(ctx)
	defer done()
	config := &ssh.ClientConfig{
		User: a.cfg.User,
		Auth: methods,
		// A goroutine of the library calls this.
		HostKeyCallback: func(name string, from net.Addr, key ssh.PublicKey) error {
			return guard.Do(ctx, func() error { return host.check(name, from, key) })
		},
		HostKeyAlgorithms: host.algorithms(),
		ClientVersion:     "SSH-2.0-bootstrap",
	}
	sshConn, chans, reqs, err := ssh.NewClientConn(conn, a.cfg.address(), config)
	if !release() && err == nil {
		_ = sshConn.Close()
		err = errors.New("the SSH server took too long")
	}
	if err != nil {
		_ = conn.Close()
		return nil, host.explain(err)
	}
	client := ssh.NewClient(sshConn, chans, reqs)
	// Only after the login: a server that does not accept it may be another machine.
	if err := host.remember(ctx); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// closeAfter closes c when ctx ends or the time has passed. release prevents that, and
// reports whether it was in time.
func closeAfter(ctx context.Context, c interface{ Close() error }, d time.Duration) (release func() bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := guard.AfterDone(ctx, func() { _ = c.Close() })
	return func() bool {
		inTime := stop()
		cancel()
		return inTime
	}
}
