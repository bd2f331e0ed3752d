package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Cause is the reason why this machine cannot reach the agent, in words for the user.
type Cause string

// The causes that a probe can detect.
const (
	NameNotFound          Cause = "the host name is not known"
	Refused               Cause = "connection refused"
	Timeout               Cause = "no answer"
	NoRoute               Cause = "no route"
	Reset                 Cause = "the connection was interrupted"
	CertificateExpired    Cause = "the certificate has expired"
	CertificateNotYet     Cause = "the certificate is not valid yet"
	CertificateName       Cause = "the certificate is for another address"
	CertificateUnknown    Cause = "the certificate is not from the expected authority"
	CertificateUnsuitable Cause = "the certificate cannot be used"
	NotTLS                Cause = "no TLS on this port"
	TLSFailed             Cause = "TLS failed"
	Unauthorized          Cause = "wrong user or password"
	Status                Cause = "unexpected HTTP status"
	NotAnAgent            Cause = "not an agent's answer"
	Proxy                 Cause = "the proxy does not let it through"
	TunnelDown            Cause = "the tunnel is down"
	Unknown               Cause = "failed"
)

// Probe is the result of one attempt to reach the agent.
type Probe struct {
	Cause Cause
	Err   error  // all details, without secrets
	Hint  string // advice for the user; may be empty
	// Certificate is the agent's certificate, if it is the cause.
	Certificate *x509.Certificate
}

// String returns the cause and, if it adds something, the error.
func (p Probe) String() string {
	// The error would only repeat the address.
	if p.Err == nil || p.Cause == Refused && errors.Is(p.Err, syscall.ECONNREFUSED) {
		return string(p.Cause)
	}
	return fmt.Sprintf("%s (%v)", p.Cause, p.Err)
}

// hopeless reports whether waiting does not help.
func (p Probe) hopeless() bool {
	switch p.Cause {
	case CertificateExpired, CertificateNotYet, CertificateName, CertificateUnknown, CertificateUnsuitable, Unauthorized:
		return true
	}
	return false
}

// statusError reports a reply with an unexpected HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

// garbageError reports a reply that does not come from an agent.
type garbageError struct{ text string }

func (e *garbageError) Error() string { return fmt.Sprintf("got %q", e.text) }

// proxyError reports that a proxy refused to open the connection.
type proxyError struct{ host, status string }

func (e *proxyError) Error() string { return fmt.Sprintf("proxy %s answers %s", e.host, e.status) }

func proxyAnswer(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return &proxyError{host: proxy.Host, status: resp.Status}
	}
	return nil
}

// classify turns the error of an exchange into a cause and a hint for the user.
func (c *Client) classify(err error, met *stage) Probe {
	// The text that http.Client adds only repeats method and URL.
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	probe := Probe{Cause: Unknown, Err: &quoted{text: c.clean(err.Error()), err: err}}
	if c.cfg.TunnelErr != nil {
		if down := c.cfg.TunnelErr(); down != nil {
			probe.Cause = TunnelDown
			probe.Err = &quoted{text: c.clean(down.Error()), err: down}
			probe.Hint = "check that the VM's SSH server answers and takes the key of cloud_provider.ssh_tunnel"
			return probe
		}
	}
	for _, judge := range []func(error, *Probe) bool{c.judgeProxy, c.judgeAnswer, c.judgeCertificate, c.judgeTLS} {
		if judge(err, &probe) {
			return probe
		}
	}
	c.judgeNetwork(err, met, &probe)
	return probe
}

func (c *Client) judgeProxy(err error, p *Probe) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "proxyconnect" {
		p.Cause, p.Hint = Proxy, "check that the proxy is up, or reach the agent without one"
		return true
	}
	if _, ok := errors.AsType[*proxyError](err); ok {
		p.Cause, p.Hint = Proxy, fmt.Sprintf("allow %s on the proxy, or reach the agent without one", c.Address())
		return true
	}
	return false
}

func (c *Client) judgeAnswer(err error, p *Probe) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		p.Cause, p.Hint = Status, "check that the host and port of cloud_provider.mbus are the agent's"
		if e.status == http.StatusUnauthorized {
			p.Cause = Unauthorized
			p.Hint = "check user and password in cloud_provider.mbus: the agent has those that the VM was created with"
		}
		return true
	}
	if _, ok := errors.AsType[*garbageError](err); ok {
		p.Cause, p.Hint = NotAnAgent, "check that the host and port of cloud_provider.mbus are the agent's"
		return true
	}
	return false
}

func (c *Client) judgeCertificate(err error, p *Probe) bool {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return false
	}
	if len(failed.UnverifiedCertificates) > 0 {
		p.Certificate = failed.UnverifiedCertificates[0]
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := certificateNames(e.Certificate)
		p.Cause = CertificateName
		p.Hint = fmt.Sprintf("the certificate is for %s, not for %s: create a certificate with that address as alternative name, or correct the host of cloud_provider.mbus", names, cmp.Or(c.name, c.base.Hostname()))
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		p.Cause = CertificateUnknown
		issuer := "somebody else"
		if p.Certificate != nil {
			issuer = fmt.Sprintf("%q", p.Certificate.Issuer.String())
		}
		p.Hint = fmt.Sprintf("it is from %s: cloud_provider.cert.ca must be the authority that signed the certificate the VM was created with", c.clean(issuer))
		return true
	}
	p.Cause, p.Hint = CertificateUnsuitable, "create a new certificate for cloud_provider.cert"
	e, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || e.Reason != x509.Expired || e.Cert == nil {
		return true
	}
	p.Certificate = e.Cert
	if now := time.Now(); now.Before(e.Cert.NotBefore) {
		p.Cause = CertificateNotYet
		p.Hint = fmt.Sprintf("it is valid from %s, and here it is %s: check the clock of this machine", date(e.Cert.NotBefore), date(now))
		return true
	}
	p.Cause = CertificateExpired
	p.Hint = fmt.Sprintf("it was valid until %s: create a new certificate and recreate the VM with it", date(e.Cert.NotAfter))
	return true
}

func (c *Client) judgeTLS(err error, p *Probe) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		p.Cause = NotTLS
		p.Hint = "something else listens there: check that the port of cloud_provider.mbus is the agent's"
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok || strings.Contains(err.Error(), "tls: ") {
		p.Cause = TLSFailed
		p.Hint = "check that the port of cloud_provider.mbus is the agent's and that nothing in between ends TLS"
		return true
	}
	return false
}

func (c *Client) judgeNetwork(err error, met *stage, p *Probe) {
	text := strings.ToLower(err.Error())
	stuck := errors.Is(err, errSilent) || errors.Is(err, errSlow)
	timeout := errors.Is(err, context.DeadlineExceeded) || stuck
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		timeout = true
	}
	port := c.base.Port()
	// Errors of connections that another machine opens are available only as text.
	switch _, dns := errors.AsType[*net.DNSError](err); {
	case dns:
		p.Cause = NameNotFound
		p.Hint = fmt.Sprintf("check the host %q of cloud_provider.mbus and this machine's name servers", c.base.Hostname())
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(text, "connection refused"):
		p.Cause = Refused
		p.Hint = fmt.Sprintf("the machine is up, but no agent listens on port %s", port)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), strings.Contains(text, "no route to host"):
		p.Cause = NoRoute
		p.Hint = fmt.Sprintf("check that the VM runs, that its address is %s and that this machine has a route there", c.base.Hostname())
	case timeout, strings.Contains(text, "timed out"):
		p.Cause = Timeout
		switch {
		case stuck:
			p.Hint = "the agent or the network hangs"
		case met.secured.Load():
			p.Hint = "the agent accepts the message and does not answer"
		case met.connected.Load():
			p.Hint = fmt.Sprintf("port %s accepts connections but sends nothing: the agent hangs, or something in between answers for it", port)
		default:
			p.Hint = fmt.Sprintf("check that the VM runs with the address %s, and that security groups and firewalls let this machine reach port %s", c.base.Hostname(), port)
		}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		p.Cause = Reset
		p.Hint = "the agent restarts, or a firewall or load balancer in between interrupts it"
	}
}

func certificateNames(cert *x509.Certificate) string {
	var names []string
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	names = append(names, cert.DNSNames...)
	if len(names) == 0 {
		return "no address at all"
	}
	return strings.Join(names, ", ")
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
