package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bootstrap/internal/guard"
)

// Deadlines of one HTTP exchange. A task on the VM has no deadline unless
// Config.TaskTimeout sets one.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	replyTimeout     = time.Minute
	// slowReplyTimeout is for messages that the agent answers only when their work is
	// done: start first reloads the process supervisor, for which each attempt takes up
	// to half a minute.
	slowReplyTimeout = 10 * time.Minute
	// idleTimeout is short, because a connection that was idle for long may be broken
	// although no error was reported, and a message must not be sent twice.
	idleTimeout = 5 * time.Second
	// cancelTimeout limits the message that cancels a task.
	cancelTimeout = 3 * time.Second
	// silenceTimeout ends the transfer of a blob in which no byte moves.
	silenceTimeout = time.Minute
	// slowest is the number of bytes that the transfer of a blob must move in each
	// paceTime.
	slowest  = 64 << 10
	paceTime = time.Minute
	// storeTimeout is how long an agent may take to answer an upload after the client has
	// written its last byte. At that time, the operating system may still have to send
	// many of the bytes.
	storeTimeout = 2 * time.Minute
	// waitingEvery is how often Config.Waiting is called.
	waitingEvery = 30 * time.Second
)

// Config contains the agent's address and how to reach it. Only URL is required.
type Config struct {
	// URL is the mbus: https://user:password@host:port. With #name appended, the
	// agent's certificate is verified for that name, not for the host.
	URL string
	// CA is the PEM text of the only authorities trusted to sign the
	// agent's certificate. Empty accepts every certificate, see
	// Client.Unverified.
	CA      string
	ReplyTo string // the deployment's director id; the agent does not read it
	// Dial opens the connection to an agent behind a jumpbox; nil connects
	// directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy returns the HTTP proxy for a request; nil: no proxy. The proxy settings of
	// the environment are ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// TunnelErr returns why the tunnel to the VM is down, nil when it is up.
	TunnelErr func() error
	// TaskTimeout limits one task on the VM; 0 is no limit.
	TaskTimeout time.Duration
	// Waiting is called every 30 s while the agent works on one message. It is called in
	// another goroutine, and never after the method has returned.
	Waiting func(method string, since time.Duration)
	// WaitsFor is called when the agent reports what it waits for, and when that changes.
	WaitsFor func(method, what string)
	// Redact removes secrets from the agent's texts, in addition to the
	// password of URL.
	Redact func(string) string
	// Trace is called before and after each message, including those that poll a task,
	// and each transfer of a blob (put_blob, get_blob). It may be nil.
	Trace func(method, moment string)
}

// Client sends messages and blobs to one agent. It may be used concurrently.
type Client struct {
	cfg      Config
	base     *url.URL // the URL without user and password
	name     string   // the name for which the certificate is verified; empty: the host
	user     string
	password string
	secrets  *strings.Replacer // every spelling of the password
	http     *http.Client
	trans    *http.Transport
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil {
		// The parser's error contains the URL with its password.
		return nil, errors.New("cannot use the agent's URL: it is not a URL; want https://user:password@host:port")
	}
	if base.Scheme != "https" || base.Hostname() == "" {
		return nil, fmt.Errorf("cannot use the agent's URL %s: want https://user:password@host:port", base.Redacted())
	}
	c := &Client{cfg: cfg, user: base.User.Username()}
	c.password, _ = base.User.Password()
	c.secrets = passwordSpellings(cfg.URL, c.user, c.password)
	c.name = base.Fragment
	base.User = nil
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath, base.RawQuery, base.Fragment = "", "", ""
	c.base = base

	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.name}
	if cfg.CA == "" {
		tlsConfig.InsecureSkipVerify = true
	} else {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM([]byte(cfg.CA)) {
			return nil, errors.New("cannot use the agent's CA: it holds no certificate in PEM form")
		}
	}
	c.trans = &http.Transport{
		DialContext:            guard.Dial(c.dial),
		Proxy:                  cfg.Proxy,
		OnProxyConnectResponse: proxyAnswer,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    handshakeTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    4,
		// Blobs are compressed already.
		DisableCompression: true,
	}
	c.http = &http.Client{
		Transport: c.trans,
		// An agent never redirects, and no other server may get the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Unverified reports whether no CA is known. Then anyone in the network could pose as the
// agent and read the password, so the user gets one warning.
func (c *Client) Unverified() bool { return c.cfg.CA == "" }

func (c *Client) trace(method, moment string) {
	if c.cfg.Trace != nil {
		c.cfg.Trace(method, moment)
	}
}

// Address is the agent's host:port.
func (c *Client) Address() string {
	if c.base.Port() == "" {
		return net.JoinHostPort(c.base.Hostname(), "443")
	}
	return c.base.Host
}

// Close closes idle connections; the client stays usable.
func (c *Client) Close() { c.trans.CloseIdleConnections() }

// dialLimit is the context key for a shorter dial than dialTimeout.
type dialLimit struct{}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	limit := dialTimeout
	if d, ok := ctx.Value(dialLimit{}).(time.Duration); ok && c.cfg.Dial == nil && c.cfg.Proxy == nil {
		limit = d
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if c.cfg.Dial != nil {
		return c.cfg.Dial(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// clean removes the password from a text that came from the agent or the
// network.
func (c *Client) clean(text string) string {
	text = c.secrets.Replace(text)
	if c.cfg.Redact != nil {
		text = c.cfg.Redact(text)
	}
	return text
}

// passwordSpellings masks the password as it is, as it is written in the URL, as Go would
// write it there, and as it is sent.
func passwordSpellings(mbus, user, password string) *strings.Replacer {
	if password == "" {
		return strings.NewReplacer()
	}
	_, written, _ := strings.Cut(mbus, "://")
	written = written[:max(0, strings.LastIndex(written, "@"))]
	_, written, _ = strings.Cut(written, ":")
	var pairs []string
	for _, spelling := range []string{
		base64.StdEncoding.EncodeToString([]byte(user + ":" + password)), written,
		strings.TrimPrefix(url.UserPassword("", password).String(), ":"), url.QueryEscape(password), password,
	} {
		if spelling != "" {
			pairs = append(pairs, spelling, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}
