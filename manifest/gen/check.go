package gen

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Kind says what a Finding is about.
type Kind string

// The kinds of findings; rotating the variable ends all of them.
const (
	// Malformed is a stored value of another shape than its type has.
	Malformed Kind = "malformed"
	// Mismatch is a certificate or key that its options do not describe
	// any more.
	Mismatch Kind = "mismatch"
	// OtherCA is a certificate that the CA of its options did not sign.
	OtherCA Kind = "other-ca"
	// Expired is a certificate whose time is over.
	Expired Kind = "expired"
	// Expiring is a certificate whose time is over soon.
	Expiring Kind = "expiring"
	// NotYetValid is a certificate whose time has not begun.
	NotYetValid Kind = "not-yet-valid"
)

// Finding is something about a stored value that its owner should know.
type Finding struct {
	Variable string
	Option   string // that the value does not match; else empty
	Kind     Kind
	Message  string // without the variable's name, and without secrets
}

// String returns one sentence that names the variable.
func (f Finding) String() string { return fmt.Sprintf("variable %q: %s", f.Variable, f.Message) }

// checker collects the findings of one variable.
type checker struct {
	d        Definition
	findings []Finding
}

func (c *checker) find(kind Kind, option, format string, args ...any) {
	c.findings = append(c.findings, Finding{c.d.Name, option, kind, fmt.Sprintf(format, args...)})
}

// Check compares a stored value with its definition. Options that are not
// given, or of which Validate disapproves, are not compared. The function ca
// finds the current value of the certificate that is to have signed; nil
// leaves that out. Certificates that end within warnWithin of now are findings
// too.
func Check(d Definition, value any, ca func(name string) (any, bool), now time.Time, warnWithin time.Duration) []Finding {
	c := &checker{d: d}
	o, problems := parse(d)
	switch d.Type {
	case "password":
		if s, ok := value.(string); !ok || s == "" {
			c.find(Malformed, "", "the stored password is %s where text is needed", describeStored(value))
		}
	case "user":
		c.user(value, o)
	case "ssh", "rsa":
		c.keyPair(value, o)
	case "certificate":
		c.certificate(value, o, ca, now, warnWithin)
	}
	// The values of bad options cannot be compared with anything.
	return slices.DeleteFunc(c.findings, func(f Finding) bool {
		return f.Option != "" && slices.ContainsFunc(problems, func(p *OptionError) bool { return p.Option == f.Option })
	})
}

// Validity returns the period in which a stored certificate is valid; ok is
// false for values of other types.
func Validity(value any) (notBefore, notAfter time.Time, ok bool) {
	fields, ok := fieldsOf(value)
	if !ok {
		return
	}
	cert, err := parseCertificate(fields["certificate"])
	if err != nil {
		return time.Time{}, time.Time{}, false
	}
	return cert.NotBefore, cert.NotAfter, true
}

func describeStored(value any) string {
	if value == "" {
		return "empty"
	}
	return describe(value)
}

// fields returns the texts of a stored map that has all the keys.
func (c *checker) fields(value any, keys ...string) (map[string]string, bool) {
	fields, ok := fieldsOf(value)
	if !ok {
		c.find(Malformed, "", "the stored value is %s where a map with %s is needed", describeStored(value), strings.Join(keys, " and "))
		return nil, false
	}
	for _, k := range keys {
		if fields[k] == "" {
			c.find(Malformed, "", "the stored value lacks %s, or it is not text", k)
			ok = false
		}
	}
	return fields, ok
}

// given tells whether an option is there at all.
func (c *checker) given(option string) bool { return c.d.Options[option] != nil }

func (c *checker) user(value any, o options) {
	fields, ok := c.fields(value, "username", "password")
	if ok && c.given("username") && fields["username"] != o.username {
		c.find(Mismatch, "username", "the stored user has the name %q, option username says %q", fields["username"], o.username)
	}
	hash := strings.Split(fields["password_hash"], "$")
	if !ok || len(hash) != 4 || hash[1] != "6" || len(fields["password"]) > maxHashedLength {
		return
	}
	// A salt that another tool chose may be one that sha512Crypt refuses.
	if made, err := sha512Crypt(fields["password"], hash[2]); err == nil && made != fields["password_hash"] {
		c.find(Malformed, "", "the stored password_hash is not that of the stored password")
	}
}

// keyPair checks the values of ssh and rsa.
func (c *checker) keyPair(value any, o options) {
	fields, ok := c.fields(value, "private_key", "public_key")
	if !ok {
		return
	}
	signer, err := ssh.ParsePrivateKey([]byte(fields["private_key"]))
	if err != nil {
		c.find(Malformed, "", "the stored private_key cannot be read")
		return
	}
	public, ok := sshPublic(fields["public_key"])
	if !ok {
		c.find(Malformed, "", "the stored public_key cannot be read")
	} else if string(public.Marshal()) != string(signer.PublicKey().Marshal()) {
		c.find(Malformed, "", "the stored public_key does not belong to the stored private_key")
	}
	if k, ok := signer.PublicKey().(ssh.CryptoPublicKey); ok {
		kind, length := keyKind(k.CryptoPublicKey())
		c.key(kind, length, o)
	}
}

// sshPublic reads a line of authorized_keys, or a public key in PEM form.
func sshPublic(text string) (ssh.PublicKey, bool) {
	if public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err == nil {
		return public, true
	}
	key, err := parsePublicKey(text)
	if err != nil {
		return nil, false
	}
	public, err := ssh.NewPublicKey(key)
	return public, err == nil
}

func (c *checker) key(kind string, length int, o options) {
	switch {
	case c.given("key_type") && kind != o.keyType:
		c.find(Mismatch, "key_type", "the stored key is %s, option key_type says %s", kind, o.keyType)
	case c.given("key_length") && length != o.keyLength && o.keyLength != 0:
		c.find(Mismatch, "key_length", "the stored key has %d bits, option key_length says %d", length, o.keyLength)
	}
}

func (c *checker) certificate(value any, o options, ca func(string) (any, bool), now time.Time, warnWithin time.Duration) {
	fields, ok := c.fields(value, "certificate", "private_key")
	if !ok {
		return
	}
	cert, err := parseCertificate(fields["certificate"])
	if err != nil {
		c.find(Malformed, "", "the stored certificate cannot be read: %v", err)
		return
	}
	key, err := parseKey(fields["private_key"])
	if err != nil {
		c.find(Malformed, "", "the stored private_key cannot be used: %v", err)
	} else if !samePublicKey(cert.PublicKey, key.Public()) {
		c.find(Malformed, "", "the stored private_key does not belong to the stored certificate")
	}
	c.period(cert, now, warnWithin)
	c.subject(cert, o)
	kind, length := keyKind(cert.PublicKey)
	c.key(kind, length, o)
	c.signer(cert, fields["ca"], o, ca)
}

func (c *checker) period(cert *x509.Certificate, now time.Time, warnWithin time.Duration) {
	left := cert.NotAfter.Sub(now)
	switch {
	case now.Before(cert.NotBefore):
		c.find(NotYetValid, "", "the stored certificate is not valid before %s", moment(cert.NotBefore))
	case left < 0:
		c.find(Expired, "", "the stored certificate expired on %s, %s ago", moment(cert.NotAfter), days(-left))
	case left <= warnWithin:
		c.find(Expiring, "", "the stored certificate expires on %s, in %s", moment(cert.NotAfter), days(left))
	}
}

func (c *checker) subject(cert *x509.Certificate, o options) {
	if got := cert.Subject.CommonName; c.given("common_name") && got != o.commonName {
		c.find(Mismatch, "common_name", "the stored certificate has the common name %q, option common_name says %q", got, o.commonName)
	}
	if cert.IsCA != o.isCA {
		is := "is no CA, option is_ca says it is one"
		if cert.IsCA {
			is = "is a CA, option is_ca does not say so"
		}
		c.find(Mismatch, "is_ca", "the stored certificate %s", is)
	}
	for _, option := range []string{"organization", "organizations"} {
		if c.given(option) && !sameSet(cert.Subject.Organization, o.organizations) {
			c.find(Mismatch, option, "the stored certificate has the organizations %q, option %s says %q", cert.Subject.Organization, option, o.organizations)
		}
	}
	if o.isCA {
		return // its other options are ignored when it is made
	}
	if c.given("alternative_names") {
		var has, wanted []string
		has = append(has, cert.DNSNames...)
		for _, ip := range cert.IPAddresses {
			has = append(has, canonical(ip.String()))
		}
		for _, name := range o.names {
			wanted = append(wanted, canonical(name))
		}
		if !sameSet(has, wanted) {
			c.find(Mismatch, "alternative_names", "the stored certificate is for %s, option alternative_names says %s", quoted(has), quoted(wanted))
		}
	}
	if c.given("extended_key_usage") && !sameSet(cert.ExtKeyUsage, o.extKeyUsage) {
		c.find(Mismatch, "extended_key_usage", "the stored certificate has other extended key usages than option extended_key_usage says")
	}
	if c.given("key_usage") && cert.KeyUsage != o.keyUsage {
		c.find(Mismatch, "key_usage", "the stored certificate has other key usages than option key_usage says")
	}
}

// signer compares the CA that signed with the one that the options name.
func (c *checker) signer(cert *x509.Certificate, stored string, o options, ca func(string) (any, bool)) {
	if o.ca == "" {
		if o.isCA && cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
			c.find(Mismatch, "ca", "the stored certificate was signed by another CA (%q), but no option ca names one", cert.Issuer.CommonName)
		}
		return
	}
	if ca == nil {
		return
	}
	value, found := ca(o.ca)
	fields, ok := fieldsOf(value)
	if !found || !ok {
		return // it is made when it is needed, or the finding is about the CA itself
	}
	current, err := parseCertificate(fields["certificate"])
	if err != nil {
		return
	}
	if current.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
		c.find(OtherCA, "ca", "the stored certificate was not signed by the current %q", o.ca)
		return
	}
	// Who trusts the certificate trusts what stands in its value's ca.
	if stored != "" && !slices.ContainsFunc(parseCertificates(stored), func(c *x509.Certificate) bool { return samePublicKey(c.PublicKey, current.PublicKey) }) {
		c.find(OtherCA, "ca", "the ca in the stored value is not the current %q", o.ca)
	}
}

// canonical makes equal what names the same host.
func canonical(name string) string {
	if ip := net.ParseIP(name); ip != nil {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			return addr.Unmap().String()
		}
	}
	return name
}

func sameSet[T comparable](a, b []T) bool {
	in := func(a, b []T) bool {
		return !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
	}
	return in(a, b) && in(b, a)
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "no names"
	}
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = fmt.Sprintf("%q", n)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func days(d time.Duration) string {
	switch n := int(d.Hours() / 24); n {
	case 0:
		return "less than a day"
	case 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", n)
	}
}
