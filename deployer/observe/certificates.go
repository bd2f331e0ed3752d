package observe

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"math"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

// Certificate is one certificate that a deployment depends on.
type Certificate struct {
	What      string    `json:"what"` // where it is used or stored
	Subject   string    `json:"subject,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	Names     []string  `json:"names,omitempty"` // hosts and addresses that it is valid for
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after"`
	DaysLeft  int       `json:"days_left"` // whole days, negative once it has expired

	spare bool // another certificate at the same place is valid longer
}

// The places of certificates, in Certificate.What.
const (
	shownByAgent  = "agent"
	checksAgent   = "CA of the agent"
	inManifestCA  = "cloud_provider.cert.ca"
	inManifestEnv = "env.bosh.mbus.cert"
)

func certificate(what string, c *x509.Certificate, now time.Time) Certificate {
	names := make([]string, 0, len(c.IPAddresses)+len(c.DNSNames))
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return Certificate{
		What: what, Subject: c.Subject.String(), Issuer: c.Issuer.String(), Names: append(names, c.DNSNames...),
		NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(), DaysLeft: daysLeft(c.NotAfter, now),
	}
}

// daysLeft returns the whole days until then; negative if it has passed.
func daysLeft(then, now time.Time) int { return int(math.Floor(then.Sub(now).Hours() / 24)) }

// certificates lists the certificates that the agent served, the CA that verifies it, and
// those in the manifest and the vars store, each once.
func (o *observer) certificates(ctx context.Context, shown []*x509.Certificate, ca string, now time.Time) []Certificate {
	var list []Certificate
	seen := map[string]bool{}
	add := func(what string, certs []*x509.Certificate) {
		for _, c := range certs {
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				list = append(list, certificate(what, c, now))
			}
		}
	}
	authorities := func(what, text string) {
		first := len(list)
		add(what, instance.ParsePEM(text))
		// One valid CA is enough, so the one that is valid longest counts.
		for i := first; i < len(list); i++ {
			for _, other := range list[first:] {
				list[i].spare = list[i].spare || other.NotAfter.After(list[i].NotAfter)
			}
		}
	}
	add(shownByAgent, shown)
	authorities(checksAgent, ca)
	authorities(inManifestCA, o.About.CA)
	add(inManifestEnv, instance.ParsePEM(instance.AgentCertificate(o.manifest())))
	return append(list, o.storedCertificates(ctx, now)...)
}

// storedCertificates lists the certificates among the manifest's variables.
func (o *observer) storedCertificates(ctx context.Context, now time.Time) []Certificate {
	if o.From.Manifest == "" {
		return nil
	}
	inputs := o.From.Inputs
	if of := o.From.Of; of != nil {
		inputs.Instances = []document.Instance{instance.MemberOf(of.Instance).Values()}
	}
	variables, err := document.Variables(ctx, o.From.Manifest, inputs)
	if err != nil {
		return nil // The problem was reported when the manifest was read.
	}
	var list []Certificate
	for _, v := range variables {
		if !v.NotAfter.IsZero() {
			list = append(list, Certificate{What: "variable " + v.Name, NotAfter: v.NotAfter.UTC(), DaysLeft: daysLeft(v.NotAfter, now)})
		}
	}
	return list
}

// fault returns why the certificate is not valid now; empty: it is valid.
func (c Certificate) fault(now time.Time) string {
	switch {
	case c.spare:
		return ""
	case now.After(c.NotAfter):
		return fmt.Sprintf("%s expired on %s", c.title(), report.Minute(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Sprintf("%s is not valid before %s, and this machine's clock says %s", c.title(), report.Minute(c.NotBefore), report.Minute(now))
	}
	return ""
}

// ending returns a warning if the certificate expires within a time; empty: it
// does not.
func (c Certificate) ending(now time.Time, within time.Duration) string {
	if c.spare || c.NotAfter.Sub(now) > within {
		return ""
	}
	return fmt.Sprintf("%s expires on %s (%s)", c.title(), report.Minute(c.NotAfter), leftDays(c.DaysLeft))
}

func (c Certificate) title() string {
	title := "the certificate of " + c.What
	switch c.What {
	case shownByAgent:
		title = "the agent's certificate"
	case checksAgent:
		title = "the agent's CA"
	case inManifestCA, inManifestEnv:
		title = "the certificate in the manifest's " + c.What
	}
	if c.Subject != "" {
		title += fmt.Sprintf(" (%s)", c.Subject)
	}
	return title
}

func leftDays(n int) string {
	if n == 1 {
		return "1 day left"
	}
	return fmt.Sprintf("%d days left", n)
}

// expiryWarning returns how long before a certificate expires a warning is shown.
func (o *observer) expiryWarning() time.Duration {
	return cmp.Or(o.From.Inputs.ExpiryWarning, 30*24*time.Hour)
}
