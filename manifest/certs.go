package manifest

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"bootstrap/manifest/document"
	"bootstrap/manifest/gen"
)

const notPEM = `must be a certificate in PEM (lines from "-----BEGIN CERTIFICATE-----" to "-----END CERTIFICATE-----"); check that the lines are there, and their indentation`

// skew is how far in the future a certificate may begin, because the clock of the
// machine that made it may be ahead.
const skew = 10 * time.Minute

// certificates checks the certificate of the VM's agent against the CA that its clients
// use.
type certificates struct {
	*reader
	ca, leaf document.Value // the PEM texts
	roots    []*x509.Certificate
	chain    []*x509.Certificate // certificates of the agent; its own is the first
	now      time.Time
}

// checkCertificates checks cloud_provider.cert and the VM's env.bosh.mbus.cert. It does
// not check values that are absent or pending.
func (r *reader) checkCertificates() {
	provider := r.top.Get("cloud_provider")
	c := certificates{reader: r, ca: provider.Get("cert").Get("ca"), now: time.Now()}
	c.roots, _ = parseChain(r.manifest.CPI.CA)
	cert := r.env.Get("bosh").Get("mbus").Get("cert")
	c.leaf = cert.Get("certificate")
	if !c.leaf.IsNull() || !cert.Get("private_key").IsNull() {
		c.readAgent(c.leaf, cert.Get("private_key"))
	}
	switch {
	case len(c.chain) > 0 && c.ca.IsNull():
		// Clients without a CA verify nothing.
		c.leaf.Warn("is never verified, because cloud_provider.cert.ca is missing, so anyone who answers at the agent's address gets its password; set cloud_provider.cert.ca to the CA that signed this certificate")
	case len(c.roots) == 0:
	case len(c.chain) == 0:
		c.checkRoots()
	default:
		c.checkHost(provider.Get("mbus"))
		c.checkSigner()
	}
}

// fault reports a reason why the agent of a new VM could not be reached. For
// commands that create no VM it is a warning.
func (c certificates) fault(place document.Value, format string, args ...any) {
	if c.lenient {
		place.Warn(format, args...)
		return
	}
	place.Fail(format, args...)
}

// readAgent reads the agent's certificate and checks that its key fits.
func (c *certificates) readAgent(certificate, key document.Value) {
	text := func(c document.Value) string {
		if c.IsNull() || c.Pending() || !c.IsScalar() {
			return ""
		}
		return strings.TrimSpace(c.Scalar())
	}
	switch known := !certificate.Pending() && !key.Pending(); {
	case text(certificate) == "" && text(key) == "":
		return
	case text(certificate) == "" && known:
		c.fault(certificate, "must be provided, since private_key is: the agent cannot listen without it")
		return
	case text(key) == "" && known:
		c.fault(key, "must be provided, since certificate is: the agent cannot listen without it")
	}
	if text(certificate) == "" {
		return
	}
	chain, wrong := parseChain(text(certificate))
	if wrong != "" {
		c.fault(certificate, "%s", wrong)
		return
	}
	c.chain = chain
	if text(key) == "" {
		return
	}
	if err := gen.CheckPair(chain[0], text(key)); err != nil {
		c.fault(key, "is not the private key of the agent's certificate: %v", err)
	}
}

// checkHost checks that the certificate is for the host of the mbus URL.
func (c *certificates) checkHost(mbus document.Value) {
	host := knownHost(mbus)
	leaf := c.chain[0]
	if p := c.manifest.Placement; p != nil && p.mbus != nil && unspecified(p.mbus) && p.mbus.Fragment == "" {
		p.leaf = leaf
		if len(certificateNames(leaf)) == 0 {
			c.fault(c.leaf, "must have a name or an address for which it is verified; generate a new one with alternative_names: [%s]", c.manifest.Group.Name)
		}
		return
	}
	if host == "" {
		return
	}
	if leaf.VerifyHostname(host) == nil {
		return
	}
	names := "has no names except the common name, which clients ignore"
	if list := certificateNames(leaf); len(list) > 0 {
		names = "is for " + strings.Join(list, ", ")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		address, _ := c.manifest.Address()
		address = cmp.Or(address, "the VM's address")
		c.fault(c.leaf, "must be for the address of the VM, but %s: cloud_provider.mbus has the host %s, at which no agent is reached; write %s there, as in https://mbus:PASSWORD@%s:6868, and generate a certificate with alternative_names: [%s]", names, host, address, address, address)
		return
	}
	c.fault(c.leaf, "must be for %s, the host of cloud_provider.mbus at which the agent is reached, but %s; generate a new one with alternative_names: [%s]", host, names, host)
}

// knownHost returns the name for which the certificate of a URL is verified: the text
// after #, or the host; "" if it is pending.
func knownHost(c document.Value) string {
	if c.IsNull() || !c.IsScalar() {
		return ""
	}
	text := c.Scalar()
	if c.Pending() {
		if host := text[strings.LastIndex(text, "@")+1:]; document.ReplaceVariables(host, "") != host {
			return ""
		}
		text = document.ReplaceVariables(text, "x")
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return cmp.Or(u.Fragment, u.Hostname())
}

// certificateNames returns the names that clients compare with the host.
func certificateNames(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// checkSigner checks that the CA signed the certificate, directly or through others,
// and that all of these are valid now.
func (c *certificates) checkSigner() {
	leaf := c.chain[0]
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	moments := []time.Time{c.now, leaf.NotAfter, leaf.NotBefore}
	for _, root := range c.roots {
		options.Roots.AddCert(root)
		moments = append(moments, root.NotAfter, root.NotBefore)
	}
	for _, cert := range c.chain[1:] {
		options.Intermediates.AddCert(cert)
		moments = append(moments, cert.NotAfter, cert.NotBefore)
	}
	var first error
	for _, options.CurrentTime = range moments {
		chains, err := leaf.Verify(options)
		if err == nil {
			c.checkPeriods(chains[0])
			return
		}
		if reason := (x509.CertificateInvalidError{}); first == nil || errors.As(err, &reason) && reason.Reason != x509.Expired {
			first = err // prefer an error that does not depend on the time
		}
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(first, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		c.fault(c.leaf, "must be a certificate for servers, but its extended key usage does not contain server_auth")
	case errors.As(first, &unknown), errors.As(first, &invalid) && invalid.Reason == x509.Expired:
		c.fault(c.ca, "must be the CA that signed the agent's certificate (%s), which is %s, but is %s",
			c.leaf.Path(), subject(leaf.Issuer.String()), subject(c.roots[0].Subject.String()))
	default:
		c.fault(c.leaf, "cannot be verified with cloud_provider.cert.ca: %v", first)
	}
}

// subject returns a name of a certificate for messages.
func subject(name string) string {
	if name == "" {
		return "a CA without a name"
	}
	return fmt.Sprintf("%q", name)
}

// checkPeriods reports the certificates of a chain that are expired, not valid
// yet, or expire soon.
func (c *certificates) checkPeriods(chain []*x509.Certificate) {
	for _, cert := range chain {
		place := c.leaf
		if !slices.ContainsFunc(c.chain, cert.Equal) {
			place = c.ca
		}
		c.checkPeriod(place, cert)
	}
}

// checkRoots checks the CA that is valid for the longest time, because one valid CA is
// sufficient.
func (c *certificates) checkRoots() {
	c.checkPeriod(c.ca, slices.MaxFunc(c.roots, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }))
}

func (c *certificates) checkPeriod(place document.Value, cert *x509.Certificate) {
	minute := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	switch name := subject(cert.Subject.String()); {
	case c.now.After(cert.NotAfter):
		c.fault(place, "the certificate %s expired on %s; generate a new one", name, minute(cert.NotAfter))
	case c.now.Add(skew).Before(cert.NotBefore):
		c.fault(place, "the certificate %s is not valid before %s; check this machine's clock, which says %s", name, minute(cert.NotBefore), minute(c.now))
	case cert.NotAfter.Sub(c.now) <= c.within && place.Position().File != c.store:
		place.Warn("the certificate %s expires on %s", name, minute(cert.NotAfter))
	}
}

// parseChain reads all certificates of a text in PEM; wrong describes a mistake.
func parseChain(text string) (certs []*x509.Certificate, wrong string) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, "contains a certificate in PEM that is damaged or incomplete"
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, notPEM
	}
	return certs, ""
}
