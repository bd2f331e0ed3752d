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

// Kind is the kind of a Finding.
type Kind string

// The kinds of findings. Rotating the variable resolves all of them.
const (
	// Malformed means that a stored value does not have its type.
	Malformed Kind = "malformed"
	// Mismatch means that a certificate or key does not match its options.
	Mismatch Kind = "mismatch"
	// OtherCA means that another CA than that of the options signed the certificate.
	OtherCA Kind = "other-ca"
	// Expired is a certificate that has expired.
	Expired Kind = "expired"
	// Expiring is a certificate that expires soon.
	Expiring Kind = "expiring"
	// NotYetValid is a certificate that is not valid yet.
	NotYetValid Kind = "not-yet-valid"
)

// Finding is a problem of a stored value.
type Finding struct {
	Variable string
	Option   string // the option that the value does not match, or empty
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

// Check compares a stored value with its definition, except for options that are not
// given or not valid. The function ca returns the current value of the CA; nil: the
// signature is not checked. Certificates that expire within warnWithin of now are
// findings, too.
func Check(d Definition, value any, ca func(name string) (any, bool), now time.Time, warnWithin time.Duration) []Finding {
	c := &checker{d: d}
	o, problems := parse(d)
	switch d.Type {
	case "password":
		if s, ok := value.(string); !ok || s == "" {
			c.find(Malformed, "", "the stored password is %s, but must be text", describeStored(value))
		}
	case "user":
		c.user(value, o)
	case "ssh", "rsa":
		c.keyPair(value, o)
	case "certificate":
		c.certificate(value, o, ca, now, warnWithin)
	}
	// Wrong options cannot be compared with the value.
	return slices.DeleteFunc(c.findings, func(f Finding) bool {
		return f.Option != "" && slices.ContainsFunc(problems, func(p *OptionError) bool { return p.Option == f.Option })
	})
}

// Validity returns the period in which a stored certificate is valid; ok is
// false for other values.
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

// fields returns the texts of a stored map; ok is false, and reported, unless it
// has all the keys.
func (c *checker) fields(value any, keys ...string) (map[string]string, bool) {
	fields, ok := fieldsOf(value)
	if !ok {
		c.find(Malformed, "", "the stored value is %s, but must be a map with %s", describeStored(value), strings.Join(keys, " and "))
		return nil, false
	}
	for _, k := range keys {
		if fields[k] == "" {
			c.find(Malformed, "", "in the stored value, %s is missing or not text", k)
			ok = false
		}
	}
	return fields, ok
}

// given reports whether an option is given.
func (c *checker) given(option string) bool { return c.d.Options[option] != nil }

func (c *checker) user(value any, o options) {
	fields, ok := c.fields(value, "username", "password")
	if ok && c.given("username") && fields["username"] != o.username {
		c.find(Mismatch, "username", "the stored user has the name %q, but the option username is %q", fields["username"], o.username)
	}
	hash := strings.Split(fields["password_hash"], "$")
	if !ok || len(hash) != 4 || hash[1] != "6" || len(fields["password"]) > maxHashedLength {
		return
	}
	// sha512Crypt may not support the salt of another tool.
	if made, err := sha512Crypt(fields["password"], hash[2]); err == nil && made != fields["password_hash"] {
		c.find(Malformed, "", "the stored password_hash does not match the stored password")
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
		c.find(Mismatch, "key_type", "the stored key is %s, but the option key_type is %s", kind, o.keyType)
	case c.given("key_length") && length != o.keyLength && o.keyLength != 0:
		c.find(Mismatch, "key_length", "the stored key has %d bits, but the option key_length is %d", length, o.keyLength)
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
		c.find(Mismatch, "common_name", "the stored certificate has the common name %q, but the option common_name is %q", got, o.commonName)
	}
	if cert.IsCA != o.isCA {
		is := "is not a CA, but the option is_ca is true"
		if cert.IsCA {
			is = "is a CA, but the option is_ca is not true"
		}
		c.find(Mismatch, "is_ca", "the stored certificate %s", is)
	}
	for _, option := range []string{"organization", "organizations"} {
		if c.given(option) && !sameSet(cert.Subject.Organization, o.organizations) {
			c.find(Mismatch, option, "the stored certificate has the organizations %q, but the option %s is %q", cert.Subject.Organization, option, o.organizations)
		}
	}
	if o.isCA {
		return // Generate ignores its other options
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
			c.find(Mismatch, "alternative_names", "the stored certificate is for %s, but the option alternative_names is %s", quoted(has), quoted(wanted))
		}
	}
	if c.given("extended_key_usage") && !sameSet(cert.ExtKeyUsage, o.extKeyUsage) {
		c.find(Mismatch, "extended_key_usage", "the extended key usages of the stored certificate differ from the option extended_key_usage")
	}
	if c.given("key_usage") && cert.KeyUsage != o.keyUsage {
		c.find(Mismatch, "key_usage", "the key usages of the stored certificate differ from the option key_usage")
	}
}

// signer compares the CA that signed the certificate with that of the options.
func (c *checker) signer(cert *x509.Certificate, stored string, o options, ca func(string) (any, bool)) {
	if o.ca == "" {
		if o.isCA && cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
			c.find(Mismatch, "ca", "the stored certificate was signed by another CA (%q), but there is no option ca", cert.Issuer.CommonName)
		}
		return
	}
	if ca == nil {
		return
	}
	value, found := ca(o.ca)
	fields, ok := fieldsOf(value)
	if !found || !ok {
		return // the CA has no value yet, or findings of its own
	}
	current, err := parseCertificate(fields["certificate"])
	if err != nil {
		return
	}
	if current.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
		c.find(OtherCA, "ca", "the stored certificate was not signed by the current %q", o.ca)
		return
	}
	// Clients verify the certificate with the ca in its value.
	if stored != "" && !slices.ContainsFunc(parseCertificates(stored), func(c *x509.Certificate) bool { return samePublicKey(c.PublicKey, current.PublicKey) }) {
		c.find(OtherCA, "ca", "the ca in the stored value is not the current %q", o.ca)
	}
}

// canonical returns the same text for names of the same host.
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
