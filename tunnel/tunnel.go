// Package tunnel opens an SSH connection to a VM and lets the VM reach a
// server of this process through a port that the VM's SSH server listens on.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// Config says where the VM is, how to log in, and where the VM listens.
type Config struct {
	Host        string
	Port        int // 0: 22
	User        string
	Password    string // for the login methods password and keyboard-interactive
	PrivateKey  string // text of a key, in any format of OpenSSH or PEM
	Passphrase  string // passphrase of PrivateKey
	AgentSocket string // socket of an ssh-agent (SSH_AUTH_SOCK); empty: no ssh-agent is used
	// Dial connects to Host if it is behind another machine; nil: connect directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	HostKey    string // the only accepted host key, as a line of authorized_keys; if it is set, KnownHosts is not used
	KnownHosts string // file with the host key of each HostName; empty: keys are kept in memory until Close
	HostName   string // VM CID, because addresses are used again and VMs are not
	Remote     string // host:port that the VM's SSH server listens on

	ConnectTimeout time.Duration // time until the SSH server answers; default: 5 min
	AuthTimeout    time.Duration // time from its first answer until it accepts the login; default: 2 min
	ListenTimeout  time.Duration // time until it listens on Remote; default: 15 s, which is enough for the port of a lost tunnel to become free
	KeepAlive      time.Duration // between keep-alives, and the limit for a reply; 10 s
	Report         func(string)  // called about waiting, loss and reconnection; may be nil
}

// Tunnel is open until Close.
type Tunnel struct {
	cfg    Config
	auth   *auth
	serve  func(net.Listener) error
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error
}

// Open connects, listens on the VM, and calls serve with the listener in a new goroutine.
// It restores a lost connection, and then calls serve again with another listener. serve
// must return when its listener is closed. The context limits only Open. If another
// machine answers than before, the error is a *HostKeyError.
func Open(ctx context.Context, cfg Config, serve func(net.Listener) error) (*Tunnel, error) {
	cfg.setDefaults()
	auth, err := newAuth(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot open the SSH tunnel to %s: %w", cfg.address(), err)
	}
	t := &Tunnel{cfg: cfg, auth: auth, serve: serve, done: make(chan struct{})}
	conn, err := t.firstConnect(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot open the SSH tunnel to %s: %w", cfg.address(), err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	guard.Go(life, func() { t.keepOpen(life, conn) })
	return t, nil
}

func (c *Config) setDefaults() {
	if c.Port == 0 {
		c.Port = 22
	}
	for _, d := range []struct {
		of *time.Duration
		is time.Duration
	}{{&c.ConnectTimeout, 5 * time.Minute}, {&c.AuthTimeout, 2 * time.Minute}, {&c.ListenTimeout, 15 * time.Second}, {&c.KeepAlive, 10 * time.Second}} {
		if *d.of <= 0 {
			*d.of = d.is
		}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	report, last := c.Report, ""
	var mu sync.Mutex
	c.Report = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if text != last && report != nil {
			report(text)
		}
		last = text
	}
}

func (c *Config) address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// Close ends the connection and waits for serve. It may be called twice.
func (t *Tunnel) Close() error {
	t.cancel()
	<-t.done
	return nil
}

// Err returns why the tunnel is not open now; nil while it is open.
func (t *Tunnel) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Tunnel) setErr(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

// errClosed is the error of Err after Close.
var errClosed = errors.New("the SSH tunnel is closed")

const (
	retryEvery   = 500 * time.Millisecond
	retrySlowest = 15 * time.Second
)

// keepOpen serves the connection, and reconnects when it is lost.
func (t *Tunnel) keepOpen(ctx context.Context, conn *connection) {
	defer close(t.done)
	defer func() {
		if ctx.Err() != nil {
			t.setErr(errClosed)
		}
	}()
	for pauses := wait.Grow(retryEvery, retrySlowest, 2); ; {
		began := time.Now()
		err := t.run(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > retrySlowest {
			pauses.Reset()
		}
		t.lost(err)
		for {
			if wait.For(ctx, pauses.Next()) != nil {
				return
			}
			conn, err = t.connectOnce(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			t.setErr(fmt.Errorf("cannot open the SSH tunnel to %s again: %w", t.cfg.address(), err))
			if hopeless(err) {
				t.cfg.Report(t.Err().Error())
				return
			}
		}
		t.setErr(nil)
		t.cfg.Report("the SSH tunnel to " + t.cfg.address() + " is open again")
	}
}

func (t *Tunnel) lost(err error) {
	err = fmt.Errorf("lost the SSH tunnel to %s: %w", t.cfg.address(), err)
	t.setErr(err)
	t.cfg.Report(err.Error() + "; opening it again")
}

// run serves one connection until it is lost or ctx ends, and then closes everything that
// belongs to it.
func (t *Tunnel) run(ctx context.Context, conn *connection) error {
	served := guard.Start(ctx, func() error { return t.serve(conn.listener) })
	stop := make(chan struct{})
	dead := guard.Start(ctx, func() error { return keepAlive(ctx, conn.client, t.cfg.KeepAlive, stop) })

	var serveErr, deadErr error
	pending := 2
	select {
	case <-ctx.Done():
	case serveErr = <-served:
		pending--
		served = nil
	case deadErr = <-dead:
		pending--
		dead = nil
	}
	close(stop)
	conn.close()
	for ; pending > 0; pending-- {
		select {
		case err := <-served:
			served = nil
			if deadErr == nil {
				serveErr = err
			}
		case deadErr = <-dead:
			dead = nil
		}
	}
	// The error of the connection explains more than the EOF of a listener.
	if deadErr != nil && (serveErr == nil || errors.Is(serveErr, io.EOF) || errors.Is(serveErr, net.ErrClosed)) {
		return deadErr
	}
	return fmt.Errorf("the server at its end has ended: %v", serveErr)
}

// keepAlive returns when the other side does not answer, the connection ends or stop is
// closed.
func keepAlive(ctx context.Context, client *ssh.Client, every time.Duration, stop <-chan struct{}) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	ended := guard.Start(ctx, client.Wait)
	var reply <-chan error
	var overdue <-chan time.Time
	asking, late := false, false
	defer func() {
		_ = client.Close()
		if asking {
			<-reply
		}
		if ended != nil {
			<-ended
		}
	}()
	for {
		select {
		case <-stop:
			return nil
		case err := <-ended:
			ended = nil
			if err == nil {
				err = errors.New("the other side closed the connection")
			}
			return err
		case <-overdue:
			if !late {
				// On a machine that was paused, the time is over before the reply is read.
				late, overdue = true, time.After(every/2)
				break
			}
			return fmt.Errorf("no sign of life for %v", every)
		case err := <-reply:
			asking, late, overdue = false, false, nil
			if err != nil {
				return err
			}
		case <-tick.C:
			if asking {
				break
			}
			asking = true
			overdue = time.After(every)
			reply = guard.Start(ctx, func() error {
				// OpenSSH answers an unknown request with a failure, which is also a
				// sign of life.
				_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
				return err
			})
		}
	}
}
