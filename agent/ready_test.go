package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"bootstrap/agent"
)

// The error names each obstacle and says what to do.
func TestWaitReadyCauses(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	ok := messages(t, pong)
	closed := listen(t)
	closed.Close()
	plain := httptest.NewServer(ok)
	t.Cleanup(plain.Close)
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) })
	}
	refuse := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	const anywhere = "10.9.8.7:6868"
	for _, test := range []struct {
		name  string
		cfg   agent.Config
		cause agent.Cause
		says  []string
	}{
		{"refused", agent.Config{URL: mbus(closed.Addr().String())}, agent.Refused, []string{"the machine is up", "no agent listens"}},
		{"name", agent.Config{URL: mbus("no-such-host.invalid:6868")}, agent.NameNotFound, []string{`host "no-such-host.invalid"`}},
		{"black hole", agent.Config{URL: mbus(blackHole(t))}, agent.Timeout, []string{"accepts connections but sends nothing"}},
		{"silent address", agent.Config{URL: mbus(anywhere), Dial: hang}, agent.Timeout, []string{"10.9.8.7", "firewalls", "6868"}},
		{"no route", agent.Config{URL: mbus(anywhere), Dial: refuse(syscall.EHOSTUNREACH)}, agent.NoRoute, []string{"10.9.8.7"}},
		{"refused beyond a jump host", agent.Config{URL: mbus(anywhere), Dial: refuse(errors.New("ssh: rejected: connect failed (Connection refused)"))}, agent.Refused, nil},
		{"something else", agent.Config{URL: mbus(anywhere), Dial: refuse(errors.New("moon phase, says " + password))}, agent.Unknown, []string{"moon phase, says ***"}},
		{"accepts and hangs up", agent.Config{URL: mbus(hangUp(t))}, agent.Reset, []string{"firewall"}},
		{"expired", agent.Config{URL: serve(t, ca.issue(t, -48*time.Hour, -24*time.Hour, "127.0.0.1"), ok), CA: ca.pem}, agent.CertificateExpired, []string{"valid until 2", "create a new certificate"}},
		{"not yet", agent.Config{URL: serve(t, ca.issue(t, 24*time.Hour, 48*time.Hour, "127.0.0.1"), ok), CA: ca.pem}, agent.CertificateNotYet, []string{"valid from", "clock"}},
		{"another address", agent.Config{URL: serve(t, ca.issue(t, -time.Hour, time.Hour, "10.0.0.29", "old.test"), ok), CA: ca.pem}, agent.CertificateName, []string{"for 10.0.0.29, old.test, not for 127.0.0.1"}},
		{"another name", agent.Config{URL: serve(t, ca.issue(t, -time.Hour, time.Hour, "127.0.0.1", "old.test"), ok) + "#new.test", CA: ca.pem}, agent.CertificateName, []string{"for 127.0.0.1, old.test, not for new.test"}},
		{"no address", agent.Config{URL: serve(t, ca.issue(t, -time.Hour, time.Hour), ok), CA: ca.pem}, agent.CertificateName, []string{"for no address at all"}},
		{"unknown CA", agent.Config{URL: serve(t, ca.good(t), ok), CA: other.pem}, agent.CertificateUnknown, []string{"CN=test authority", "cloud_provider.cert.ca"}},
		{"plain HTTP", agent.Config{URL: mbus(plain.Listener.Addr().String())}, agent.NotTLS, []string{"something else listens there"}},
		{"SSH", agent.Config{URL: mbus(greet(t, "SSH-2.0-OpenSSH_9.6\r\n"))}, agent.NotTLS, nil},
		{"old TLS", agent.Config{URL: mbus(oldTLS(t, ca.good(t)))}, agent.TLSFailed, nil},
		{"password", agent.Config{URL: strings.Replace(serve(t, ca.good(t), ok), "mbus:", "mbus:x", 1), CA: ca.pem}, agent.Unauthorized, []string{"user and password in cloud_provider.mbus"}},
		{"no password", agent.Config{URL: "https://" + strings.Split(serve(t, ca.good(t), ok), "@")[1], CA: ca.pem}, agent.Unauthorized, nil},
		{"status", agent.Config{URL: serve(t, ca.good(t), status(503)), CA: ca.pem}, agent.Status, []string{"503 Service Unavailable"}},
		{"web page", agent.Config{URL: serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>") })), CA: ca.pem}, agent.NotAnAgent, []string{"<html>"}},
		{"agent in trouble", agent.Config{URL: serve(t, ca.good(t), messages(t, func(agent.Request) (any, error) { return nil, errors.New("disk full") })), CA: ca.pem}, agent.NotAnAgent, []string{"disk full"}},
		{"tunnel", agent.Config{URL: mbus(closed.Addr().String()), TunnelErr: func() error { return errors.New("ssh: no key fits") }}, agent.TunnelDown, []string{"no key fits", "ssh_tunnel"}},
		{"silent agent", agent.Config{URL: serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})), CA: ca.pem}, agent.Timeout, []string{"accepts the message and does not answer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, test.cfg)
			var reported []agent.Probe
			var err error
			var silent *agent.UnreachableError
			complete := func() bool {
				return !slices.ContainsFunc(test.says, func(says string) bool { return !strings.Contains(err.Error(), says) })
			}
			// On a busy machine an answer may take longer than the client waits here.
			for limit := 400 * time.Millisecond; limit < time.Minute && (silent == nil || silent.Last.Cause != test.cause || !complete()); limit *= 4 {
				reported = nil
				err = c.WaitReady(t.Context(), limit, func(p agent.Probe) { reported = append(reported, p) })
				if !errors.As(err, &silent) {
					t.Fatalf("got %v", err)
				}
			}
			if silent.Last.Cause != test.cause || silent.Address != c.Address() || silent.Last.Err == nil {
				t.Errorf("got %q of %q (%v), want %q of %q", silent.Last.Cause, silent.Address, silent.Last.Err, test.cause, c.Address())
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "s+s%23") {
				t.Errorf("%q holds the password", err)
			}
			if len(reported) == 0 || reported[len(reported)-1].Cause != silent.Met[len(silent.Met)-1].Cause {
				t.Errorf("reported %v, met %v", reported, silent.Met)
			}
			for i := 1; i < len(reported); i++ {
				if reported[i].Cause == reported[i-1].Cause && reported[i].Hint == reported[i-1].Hint {
					t.Errorf("the same is reported twice: %v", reported)
				}
			}
		})
	}
}

// hang is a network that loses everything.
func hang(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// blackHole never accepts.
func blackHole(t *testing.T) string { return listen(t).Addr().String() }

func hangUp(t *testing.T) string { return greet(t, "") }

// greet sends a line to each client, and closes the connection.
func greet(t *testing.T, line string) string {
	listener := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
			_, _ = conn.Read(make([]byte, 4096))
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func oldTLS(t *testing.T, cert tls.Certificate) string {
	server := httptest.NewUnstartedServer(messages(t, pong))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// inBubble runs a test with its own clock, and with an agent on a network in memory. cert
// returns the certificate for each handshake.
func inBubble(t *testing.T, cert func(*authority) tls.Certificate, handler http.Handler, run func(t *testing.T, cfg agent.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		network := newPipes()
		serveOn(t, network, func() tls.Certificate { return cert(ca) }, handler)
		run(t, agent.Config{URL: mbus("agent.test:6868"), CA: ca.pem, Dial: network.dial})
	})
}

func TestWaitReadyGivesUp(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, test := range []struct {
		name   string
		cert   func(*testing.T, *authority) tls.Certificate
		status int
		cause  agent.Cause
		waited time.Duration // the shortest time; it may be a second longer
	}{
		{"another address", func(t *testing.T, a *authority) tls.Certificate { return a.issue(t, -day, day, "10.0.0.1") }, 0, agent.CertificateName, 10 * time.Second},
		{"expired", func(t *testing.T, a *authority) tls.Certificate { return a.issue(t, -2*day, -day, "agent.test") }, 0, agent.CertificateExpired, 10 * time.Second},
		{"another CA", func(t *testing.T, _ *authority) tls.Certificate { return newAuthority(t).good(t) }, 0, agent.CertificateUnknown, 10 * time.Second},
		{"valid tomorrow", func(t *testing.T, a *authority) tls.Certificate { return a.issue(t, day, 2*day, "agent.test") }, 0, agent.CertificateNotYet, 10 * time.Second},
		{"password", func(t *testing.T, a *authority) tls.Certificate { return a.good(t) }, 401, agent.Unauthorized, 10 * time.Second},
		{"status", func(t *testing.T, a *authority) tls.Certificate { return a.good(t) }, 502, agent.Status, 10 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(test.status) })
			inBubble(t, func(a *authority) tls.Certificate { return test.cert(t, a) }, handler, func(t *testing.T, cfg agent.Config) {
				c := newClient(t, cfg)
				start := time.Now()
				err := c.WaitReady(t.Context(), 10*time.Minute, nil)
				var silent *agent.UnreachableError
				if !errors.As(err, &silent) || silent.Last.Cause != test.cause {
					t.Fatalf("got %v, want %s", err, test.cause)
				}
				if waited := time.Since(start); waited < test.waited-time.Second || waited > test.waited+time.Second || silent.Waited != waited {
					t.Errorf("waited %s (says %s), want %s", waited, silent.Waited, test.waited)
				}
			})
		})
	}
}

// An agent may first show the certificate of its image and then its own: the client
// waits for it and reports the change.
func TestWaitReadyThroughChanges(t *testing.T) {
	t.Parallel()
	var since atomic.Pointer[time.Time]
	age := func() time.Duration { return time.Since(*since.Load()) }
	cert := func(a *authority) tls.Certificate {
		if age() < 8*time.Second {
			return a.issue(t, -time.Hour, time.Hour, "localhost")
		}
		return a.good(t)
	}
	answer := messages(t, pong)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if age() < 15*time.Second {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer.ServeHTTP(w, r)
	})
	inBubble(t, cert, handler, func(t *testing.T, cfg agent.Config) {
		start := time.Now()
		since.Store(&start)
		listening := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if age() < 3*time.Second {
				return nil, syscall.ECONNREFUSED
			}
			return listening(ctx, network, address)
		}
		c := newClient(t, cfg)
		var causes []string
		err := c.WaitReady(t.Context(), time.Minute, func(p agent.Probe) {
			causes = append(causes, fmt.Sprintf("%s at %s", p.Cause, age().Truncate(time.Second)))
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			string(agent.Refused) + " at 0s", string(agent.CertificateName) + " at 3s", string(agent.Unauthorized) + " at 8s",
		}
		if strings.Join(causes, "\n") != strings.Join(want, "\n") {
			t.Errorf("got %q, want %q", causes, want)
		}
		if late := time.Since(start) - 15*time.Second; late < 0 || late > 600*time.Millisecond {
			t.Errorf("ready %s after the agent was", late)
		}
	})
}

// The pauses between pings grow from 50 to 500 ms, and the last ping is within
// the timeout.
func TestWaitReadyPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		c := newClient(t, agent.Config{URL: mbus("agent.test:6868"), Dial: func(context.Context, string, string) (net.Conn, error) {
			at = append(at, time.Since(start))
			return nil, syscall.ECONNREFUSED
		}})
		err := c.WaitReady(t.Context(), 10*time.Second, nil)
		if err == nil || !strings.Contains(err.Error(), "tried for 10s") {
			t.Fatal(err)
		}
		for i := 1; i < len(at); i++ {
			pause := at[i] - at[i-1]
			if i > 1 && pause < at[i-1]-at[i-2] {
				t.Errorf("pause %d of %s is shorter than the one before", i, pause)
			}
			if pause < 50*time.Millisecond || pause > 500*time.Millisecond {
				t.Errorf("pause %d is %s", i, pause)
			}
		}
		if at[1] != 50*time.Millisecond || at[len(at)-1] > 10*time.Second || at[len(at)-1] < 9*time.Second || len(at) < 20 || len(at) > 60 {
			t.Errorf("%d pings at %v", len(at), at)
		}
	})
}

// A silent address is tried again every few seconds, and the timeout also
// interrupts a ping.
func TestWaitReadySilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newClient(t, agent.Config{URL: mbus("agent.test:6868"), Dial: hang})
		err := c.WaitReady(t.Context(), 25*time.Second, nil)
		var silent *agent.UnreachableError
		if !errors.As(err, &silent) || silent.Last.Cause != agent.Timeout {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 26*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestWaitReadyCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("interrupted")
		for _, dial := range []func(context.Context, string, string) (net.Conn, error){
			hang, func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(5*time.Second, func() { cancel(reason) })
			start := time.Now()
			err := newClient(t, agent.Config{URL: mbus("agent.test:6868"), Dial: dial}).WaitReady(ctx, time.Hour, nil)
			var silent *agent.UnreachableError
			if !errors.Is(err, reason) || errors.As(err, &silent) || time.Since(start) != 5*time.Second {
				t.Errorf("after %s got %v, want the reason and no verdict on the agent", time.Since(start), err)
			}
			timer.Stop()
			cancel(nil)
		}
	})
}

// If the URL ends with #name, the certificate is verified for that name: the address of a
// VM may be chosen after its certificate was made.
func TestVerifiedName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	good := messages(t, func(agent.Request) (any, error) { return "pong", nil })
	for name, cert := range map[string]tls.Certificate{
		"vm.internal": ca.issue(t, -time.Hour, time.Hour, "vm.internal"),
		"10.0.0.29":   ca.issue(t, -time.Hour, time.Hour, "10.0.0.29"),
	} {
		url := serve(t, cert, good) + "#" + name
		if err := newClient(t, agent.Config{URL: url, CA: ca.pem}).WaitReady(t.Context(), time.Minute, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range map[string]bool{url: true, strings.TrimSuffix(url, "#"+name): false, url + "x": false} {
			if got := (agent.Access{MBus: at, CA: ca.pem}).Signed([]*x509.Certificate{leaf}); got != want {
				t.Errorf("%s: signed %t", at, got)
			}
		}
	}
}
