package gen

import (
	"crypto/x509"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPasswordLength = 20
	defaultDuration       = 365
	// maxLength prevents a typing error from using up the memory. maxDuration keeps the
	// end of a certificate in the range of time.Duration.
	maxLength   = 65536
	maxDuration = 100000
	// maxHashedLength is the limit of crypt(3), whose time grows with the square of the
	// length.
	maxHashedLength = 512
)

// options are the options of all types, with defaults filled in.
type options struct {
	length   int // length of a password
	username string
	comment  string // comment of an SSH key

	keyType   string
	keyLength int
	keys      *Keys // nil: a key is made when it is needed

	commonName    string
	organizations []string
	names         []string // alternative names
	isCA          bool
	ca            string
	keyUsage      x509.KeyUsage
	extKeyUsage   []x509.ExtKeyUsage
	duration      time.Duration
}

// reader reads the options of one definition and collects their errors.
type reader struct {
	d        Definition
	problems []*OptionError
}

func (r *reader) fail(option, format string, args ...any) {
	r.problems = append(r.problems, &OptionError{Variable: r.d.Name, Option: option, Message: fmt.Sprintf(format, args...)})
}

func parse(d Definition) (options, []*OptionError) {
	r := &reader{d: d}
	var o options
	allowed, ok := allowedOptions(d.Type)
	if !ok {
		r.fail("", "the type %q is unknown; there are %s", d.Type, strings.Join(Types(), ", "))
		return o, r.problems
	}
	for _, name := range sortedKeys(d.Options) {
		if !slices.Contains(allowed, name) {
			r.fail(name, "the type %s has no such option; it has %s", d.Type, strings.Join(allowed, ", "))
		}
	}
	switch d.Type {
	case "password":
		o.length = r.passwordLength(maxLength)
	case "user":
		o.length = r.passwordLength(maxHashedLength)
		o.username = r.text("username")
	case "ssh":
		r.key(&o, 2048)
		o.comment = r.text("ssh_comment")
		if strings.ContainsAny(o.comment, "\r\n") {
			r.fail("ssh_comment", "must be one line")
		}
	case "rsa":
		r.key(&o, 2048)
	case "certificate":
		r.key(&o, 3072)
		r.certificate(&o)
	}
	return o, r.problems
}

func (r *reader) passwordLength(limit int64) int {
	n := r.integer("length")
	switch {
	case n < 0 || n > limit:
		r.fail("length", "must be 1 to %[2]d, or 0 for the default of %[3]d, but is %[1]d", n, limit, defaultPasswordLength)
	case n == 0:
		return defaultPasswordLength
	}
	return int(n)
}

// key reads key_type and key_length.
func (r *reader) key(o *options, rsaLength int) {
	o.keyType = r.text("key_type")
	var lengths []int
	switch o.keyType {
	case "", "rsa":
		o.keyType, o.keyLength, lengths = "rsa", rsaLength, []int{2048, 3072, 4096}
	case "ecdsa":
		o.keyLength, lengths = 256, []int{256, 384, 521}
	case "ed25519":
		o.keyLength, lengths = 256, []int{256}
	default:
		r.fail("key_type", "must be rsa, ecdsa or ed25519, but is %q", o.keyType)
		return
	}
	n := r.integer("key_length")
	switch {
	case n == 0:
	case n < math.MaxInt32 && slices.Contains(lengths, int(n)):
		o.keyLength = int(n)
	default:
		r.fail("key_length", "must be one of %[3]s for %[2]s, but is %[1]d", n, o.keyType, list(lengths))
	}
}

func (r *reader) certificate(o *options) {
	o.commonName = r.text("common_name")
	o.names = r.texts("alternative_names")
	for _, name := range o.names {
		// A certificate can contain only these characters; an empty name matches nothing.
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
			r.fail("alternative_names", "%q is neither an IP address nor a host name", name)
		}
	}
	o.isCA = r.boolean("is_ca")
	o.ca = r.text("ca")
	if o.ca == "" && !o.isCA {
		r.fail("ca", "must be provided, unless is_ca is true: the name of the variable with the CA that signs the certificate")
	}
	if o.ca != "" && o.ca == r.d.Name {
		r.fail("ca", "a certificate cannot be signed by itself; leave ca out for a root CA")
	}
	r.organizations(o)
	r.keyUsage(o)
	r.extKeyUsage(o)
	days := r.integer("duration")
	if days <= 0 {
		days = defaultDuration
	}
	if days > maxDuration {
		r.fail("duration", "must be 1 to %[2]d days, or 0 for the default of %[3]d, but is %[1]d", days, maxDuration, defaultDuration)
		return
	}
	o.duration = time.Duration(days) * 24 * time.Hour
}

func (r *reader) organizations(o *options) {
	one, many := r.text("organization"), r.texts("organizations")
	switch {
	case one != "" && len(many) > 0:
		r.fail("organizations", "only one of organization and organizations may be given")
	case one != "":
		o.organizations = []string{one}
	case len(many) > 0:
		o.organizations = many
	default:
		o.organizations = []string{"Cloud Foundry"}
	}
}

func (r *reader) keyUsage(o *options) {
	for _, name := range r.texts("key_usage") {
		i := slices.IndexFunc(keyUsages(), func(u keyUsage) bool { return u.name == name })
		if i < 0 {
			r.fail("key_usage", "must be some of %[2]s, but contains %[1]q", name, keyUsageNames())
			return
		}
		o.keyUsage |= keyUsages()[i].bit
	}
	signs := o.keyUsage & (x509.KeyUsageCertSign | x509.KeyUsageCRLSign)
	switch {
	case o.keyUsage == 0:
		o.keyUsage = defaultKeyUsage(o)
	case o.isCA && o.keyUsage&x509.KeyUsageCertSign == 0:
		r.fail("key_usage", "must contain key_cert_sign, because is_ca is true")
	case !o.isCA && signs != 0:
		r.fail("key_usage", "key_cert_sign and crl_sign are only allowed if is_ca is true")
	}
}

func defaultKeyUsage(o *options) x509.KeyUsage {
	switch {
	case o.isCA:
		return x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	case o.keyType == "rsa":
		return x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature
	}
	// Only RSA keys can encipher other keys.
	return x509.KeyUsageDigitalSignature
}

func (r *reader) extKeyUsage(o *options) {
	for _, name := range r.texts("extended_key_usage") {
		u, ok := extKeyUsages()[name]
		if !ok {
			r.fail("extended_key_usage", "must be some of %[2]s, but contains %[1]q", name, strings.Join(sortedKeys(extKeyUsages()), ", "))
			return
		}
		if !slices.Contains(o.extKeyUsage, u) {
			o.extKeyUsage = append(o.extKeyUsage, u)
		}
	}
	if o.isCA {
		// A CA with extended key usages could sign certificates only for these.
		o.extKeyUsage = nil
	} else if len(o.extKeyUsage) == 0 {
		o.extKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
}

type keyUsage struct {
	name string
	bit  x509.KeyUsage
}

func keyUsages() []keyUsage {
	return []keyUsage{
		{"digital_signature", x509.KeyUsageDigitalSignature},
		{"non_repudiation", x509.KeyUsageContentCommitment},
		{"key_encipherment", x509.KeyUsageKeyEncipherment},
		{"data_encipherment", x509.KeyUsageDataEncipherment},
		{"key_agreement", x509.KeyUsageKeyAgreement},
		{"key_cert_sign", x509.KeyUsageCertSign},
		{"crl_sign", x509.KeyUsageCRLSign},
		{"encipher_only", x509.KeyUsageEncipherOnly},
		{"decipher_only", x509.KeyUsageDecipherOnly},
	}
}

func keyUsageNames() string {
	var names []string
	for _, u := range keyUsages() {
		names = append(names, u.name)
	}
	return strings.Join(names, ", ")
}

func extKeyUsages() map[string]x509.ExtKeyUsage {
	return map[string]x509.ExtKeyUsage{
		"client_auth":      x509.ExtKeyUsageClientAuth,
		"server_auth":      x509.ExtKeyUsageServerAuth,
		"code_signing":     x509.ExtKeyUsageCodeSigning,
		"email_protection": x509.ExtKeyUsageEmailProtection,
		"timestamping":     x509.ExtKeyUsageTimeStamping,
	}
}

// text reads a scalar as text. Numbers and booleans become text as in
// create-env.
func (r *reader) text(option string) string {
	s, ok := scalar(r.d.Options[option])
	if !ok {
		r.fail(option, "must be text, not %s", describe(r.d.Options[option]))
	}
	return s
}

func (r *reader) texts(option string) []string {
	var items []any
	switch v := r.d.Options[option].(type) {
	case nil:
		return nil
	case []any:
		items = v
	case []string:
		return v
	default:
		r.fail(option, "must be a list, not %s", describe(v))
		return nil
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := scalar(item)
		if !ok || item == nil {
			r.fail(option, "item %d must be text, not %s", i, describe(item))
			continue
		}
		list = append(list, s)
	}
	return list
}

func (r *reader) boolean(option string) bool {
	switch v := r.d.Options[option].(type) {
	case nil:
		return false
	case bool:
		return v
	default:
		r.fail(option, "must be true or false, not %s", describe(v))
		return false
	}
}

func (r *reader) integer(option string) int64 {
	switch v := r.d.Options[option].(type) {
	case nil:
		return 0
	case int:
		return int64(v)
	case int64:
		return v
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	default:
		r.fail(option, "must be a whole number, not %s", describe(v))
		return 0
	}
	r.fail(option, "must be a whole number in the range of int, but is %v", r.d.Options[option])
	return 0
}

func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int, int64, uint64:
		return fmt.Sprint(v), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}

// describe names the type of a value, never the value.
func describe(value any) string {
	switch value.(type) {
	case nil:
		return "empty"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case int, int64, uint64, float64:
		return "a number"
	case []any, []string:
		return "a list"
	}
	return "a map"
}

func list(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}
