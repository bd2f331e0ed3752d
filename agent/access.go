package agent

import (
	"cmp"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
)

// Access is one way to reach an agent.
type Access struct {
	MBus string `json:"mbus"` // URL as in Config, with user and password
	CA   string `json:"ca"`   // PEM; empty: the certificate is not checked
}

// Host returns host and port of the URL; empty if it is not a URL.
func (a Access) Host() string {
	u, err := url.Parse(a.MBus)
	if err != nil {
		return ""
	}
	return u.Host
}

// User returns user and password of the URL.
func (a Access) User() string {
	u, err := url.Parse(a.MBus)
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.String()
}

// Trusted returns the CAs to accept for one access of the list. While a change is
// unfinished, these are the CAs of all accesses, because the agent may have adopted only
// a part of the change. If one of the accesses has no CA, only the CA of the given access
// is accepted.
func Trusted(list []Access, of Access) string {
	var all []string
	for _, a := range list {
		switch ca := strings.TrimSpace(a.CA); {
		case ca == "":
			return of.CA
		case !slices.Contains(all, ca):
			all = append(all, ca)
		}
	}
	return strings.Join(all, "\n") + "\n"
}

// Signed reports whether the access's CA has signed the certificates. The peer's own
// comes first.
func (a Access) Signed(chain []*x509.Certificate) bool {
	if len(chain) == 0 || a.CA == "" {
		return false
	}
	host := ""
	if u, err := url.Parse(a.MBus); err == nil {
		host = cmp.Or(u.Fragment, u.Hostname())
	}
	options := x509.VerifyOptions{DNSName: host, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	options.Roots.AppendCertsFromPEM([]byte(a.CA))
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err == nil
}
