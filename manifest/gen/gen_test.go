package gen

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"golang.org/x/crypto/ssh"
)

// values is a store with generated values.
type values map[string]any

func (v values) find(name string) (any, bool) {
	value, ok := v[name]
	return value, ok
}

func (v values) add(t testing.TB, kind, name string, options map[string]any) any {
	t.Helper()
	value, err := new(Keys).Generate(Definition{Name: name, Type: kind, Options: options}, v.find)
	if err != nil {
		t.Fatal(err)
	}
	v[name] = value
	return value
}

func (v values) certificate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	cert, err := parseCertificate(v[name].(map[string]any)["certificate"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// quick makes the generation of keys fast in tests that need any key.
func quick(options map[string]any) map[string]any {
	options["key_type"] = "ecdsa"
	return options
}

func TestPassword(t *testing.T) {
	t.Parallel()
	v := values{}
	if p := v.add(t, "password", "p", nil).(string); !regexp.MustCompile(`^[a-z0-9]{20}$`).MatchString(p) {
		t.Errorf("default password is %q", p)
	}
	if p := v.add(t, "password", "p", map[string]any{"length": 0}).(string); len(p) != 20 {
		t.Errorf("length 0 gives %d characters", len(p))
	}
	long := v.add(t, "password", "p", map[string]any{"length": 20000}).(string)
	counts := map[rune]int{}
	for _, c := range long {
		counts[c]++
	}
	if len(counts) != 36 {
		t.Errorf("%d different characters, want all 36", len(counts))
	}
	for c, n := range counts { // about 556 of each; 8 standard deviations
		if n < 370 || n > 740 {
			t.Errorf("%q occurs %d times in 20000", c, n)
		}
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	v := values{}
	u := v.add(t, "user", "u", map[string]any{"username": "admin", "length": 31}).(map[string]any)
	if keys := sortedKeys(u); !slices.Equal(keys, []string{"password", "password_hash", "username"}) {
		t.Errorf("keys are %v", keys)
	}
	if u["username"] != "admin" || !regexp.MustCompile(`^[a-z0-9]{31}$`).MatchString(u["password"].(string)) {
		t.Errorf("user is %v", u)
	}
	hash := strings.Split(u["password_hash"].(string), "$")
	if len(hash) != 4 || hash[1] != "6" {
		t.Fatalf("the hash is %v", hash)
	}
	if made, err := sha512Crypt(u["password"].(string), hash[2]); err != nil || made != u["password_hash"] {
		t.Errorf("the hash %v is not that of the password", hash)
	}
	u = v.add(t, "user", "u", nil).(map[string]any)
	if !regexp.MustCompile(`^[a-zA-Z]{20}$`).MatchString(u["username"].(string)) || len(u["password"].(string)) != 20 {
		t.Errorf("default user is %v", u)
	}
}

// The hashes equal those of `openssl passwd -6`, which omits the default number of
// rounds, too.
func TestSHA512Crypt(t *testing.T) {
	t.Parallel()
	digits := func(n int) string { return strings.Repeat("0123456789", 100)[:n] }
	for _, c := range []struct{ password, salt, want string }{
		{"hello", "abcdefgh", "$6$abcdefgh$bp46WUxDu2cphMRE0PvVJlqas2imuSq186YS793XKfmqn9XUEL17HECskUTZInaNigNndLLYc7A6yWBmFEFn3/"},
		{"Hello world!", "saltstring", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"", "a", "$6$a$Z6IPkDduHdwavesVY2NFMpOHkigshxPYdhfLg0D3A7/XFQcso9RV2E8qczyJ2su.dj6RRLaTpvgwN1rZfK0I9."},
		{"x", "./azAZ0123456789", "$6$./azAZ0123456789$e4S/VR9SVuaQNvsbZjXEF.qO96icPOoVGoZXXUt7Xvcl9ArhHTAA0c0b6HKLJdOAd8qMdWK/OLN1O0ni2CGcZ/"},
		{"pässwörd 日本", "0123456789", "$6$0123456789$kMlXon/VcEpiN7a3tlkq8H6GhXAjpGii/W0L5PY3lQxd54kkLgQrMdZ5zycbxpKUwxygphwDUQON.CSK1T1Uy/"},
		{digits(63), "saltsaltsaltsalt", "$6$saltsaltsaltsalt$qhJpkss5RXAjSyHrtY8/Hyz5TECtZ1Dq9o4uuOBfG7EXJijaSClu4XGV9kjAGxz0t6VqP/2EaYC.UqCDDb0vh."},
		{digits(64), "saltsaltsaltsalt", "$6$saltsaltsaltsalt$UQdGoZDpTjYWmFRK/Ua0sVVuvgo1I7d811z.LQLLnR4mijU5NFKprVDkMxAwAcm/MKWz9VcgBPrjmY/umWWDS/"},
		{digits(65), "saltsaltsaltsalt", "$6$saltsaltsaltsalt$VTEgB9Z.f4eF6kXrnBuFZ528HHS6fQXE74F.dKaAxWexuS9BNNmwXFaMxUpsQKN/p1550wz.jY51/iOYNXYA90"},
		{digits(129), "saltsaltsaltsalt", "$6$saltsaltsaltsalt$fDNDBpbhPCHjt3sVGgIwVLV8PueFFX8DEWacxIK73Io7dhFTblEQEPwVjrIayxAWF.GxdMD02BkAMixVfYb6o."},
		{digits(1000), "saltsaltsaltsalt", "$6$saltsaltsaltsalt$Oa4Dgdv1VoWGOPByMpeP7ZPDWHhXovC4vmBFO.xqzI0YWVwUFY3kW0fPa43BWeZOjHR3W1TOPou7c8HnADl3Z."},
	} {
		if got, err := sha512Crypt(c.password, c.salt); err != nil || got != c.want {
			t.Errorf("%q: %s, %v, want %s", c.password, got, err, c.want)
		}
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl to compare with")
	}
	for n := range 24 {
		password, salt := random(lowerAndDigits, 1+n*n/3), random(shacrypt.SaltCharSet, 1+n%16)
		out, err := exec.Command("openssl", "passwd", "-6", "-salt", salt, password).Output()
		if err != nil {
			t.Skip("this openssl does not make such hashes")
		}
		if got, err := sha512Crypt(password, salt); err != nil || got != strings.TrimSpace(string(out)) {
			t.Errorf("%q: %s, %v, want %s", password, got, err, out)
		}
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options   map[string]any
		pem, kind string
	}{
		{nil, "RSA PRIVATE KEY", "ssh-rsa"},
		{map[string]any{"key_type": "ecdsa", "key_length": 384}, "EC PRIVATE KEY", "ecdsa-sha2-nistp384"},
		{map[string]any{"key_type": "ed25519", "ssh_comment": "op@home"}, "OPENSSH PRIVATE KEY", "ssh-ed25519"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			k := values{}.add(t, "ssh", "k", c.options).(map[string]any)
			if keys := sortedKeys(k); !slices.Equal(keys, []string{"private_key", "public_key", "public_key_fingerprint"}) {
				t.Errorf("keys are %v", keys)
			}
			private := k["private_key"].(string)
			if b, _ := pem.Decode([]byte(private)); b.Type != c.pem || !strings.HasSuffix(private, "-----\n") {
				t.Errorf("private key is %s", b.Type)
			}
			signer, err := ssh.ParsePrivateKey([]byte(private))
			if err != nil {
				t.Fatal(err)
			}
			line := k["public_key"].(string)
			public, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err != nil || public.Type() != c.kind || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Errorf("public key is %q, %v", line, err)
			}
			if want, _ := c.options["ssh_comment"].(string); comment != want {
				t.Errorf("comment is %q, want %q", comment, want)
			}
			if string(public.Marshal()) != string(signer.PublicKey().Marshal()) {
				t.Error("the keys are no pair")
			}
			if !regexp.MustCompile(`^([0-9a-f]{2}:){15}[0-9a-f]{2}$`).MatchString(k["public_key_fingerprint"].(string)) {
				t.Errorf("fingerprint is %q", k["public_key_fingerprint"])
			}
		})
	}
}

func TestRSA(t *testing.T) {
	t.Parallel()
	k := values{}.add(t, "rsa", "k", nil).(map[string]any)
	if keys := sortedKeys(k); !slices.Equal(keys, []string{"private_key", "public_key"}) {
		t.Errorf("keys are %v", keys)
	}
	private, _ := pem.Decode([]byte(k["private_key"].(string)))
	public, _ := pem.Decode([]byte(k["public_key"].(string)))
	if private.Type != "RSA PRIVATE KEY" || public.Type != "PUBLIC KEY" {
		t.Errorf("the blocks are %s and %s", private.Type, public.Type)
	}
	key, err := x509.ParsePKCS1PrivateKey(private.Bytes)
	if err != nil || key.N.BitLen() != 2048 {
		t.Fatalf("%v", err)
	}
	other, err := x509.ParsePKIXPublicKey(public.Bytes)
	if err != nil || !key.PublicKey.Equal(other) {
		t.Errorf("the keys are no pair: %v", err)
	}
}

func TestCertificateDefaults(t *testing.T) {
	t.Parallel()
	v := values{}
	v.add(t, "certificate", "ca", map[string]any{"is_ca": true, "common_name": "root", "alternative_names": []any{"ignored"}})
	leaf := v.add(t, "certificate", "leaf", map[string]any{"ca": "ca", "common_name": "10.0.0.6", "alternative_names": []any{"10.0.0.6", "host.example", "::1"}}).(map[string]any)
	ca, cert := v.certificate(t, "ca"), v.certificate(t, "leaf")

	if k := leaf["private_key"].(string); !strings.HasPrefix(k, "-----BEGIN RSA PRIVATE KEY-----\n") || !strings.HasSuffix(k, "-----END RSA PRIVATE KEY-----\n") {
		t.Error("the key is not in PKCS#1 form")
	}
	key, err := parseKey(leaf["private_key"].(string))
	if err != nil || !samePublicKey(cert.PublicKey, key.Public()) {
		t.Errorf("key and certificate are no pair: %v", err)
	}
	if leaf["ca"] != v["ca"].(map[string]any)["certificate"] || v["ca"].(map[string]any)["ca"] != leaf["ca"] {
		t.Error("the field ca is not the certificate that signed")
	}
	for _, c := range []struct {
		cert           *x509.Certificate
		subject, usage string
		isCA           bool
	}{
		{ca, "CN=root,O=Cloud Foundry,C=US", "01100000", true},
		{cert, "CN=10.0.0.6,O=Cloud Foundry,C=US", "00000101", false},
	} {
		if c.cert.Subject.String() != c.subject || !c.cert.BasicConstraintsValid || c.cert.IsCA != c.isCA {
			t.Errorf("%s: %v %v", c.cert.Subject, c.cert.BasicConstraintsValid, c.cert.IsCA)
		}
		public := c.cert.PublicKey.(*rsa.PublicKey)
		if sum := sha1.Sum(public.N.Bytes()); public.N.BitLen() != 3072 || string(sum[:]) != string(c.cert.SubjectKeyId) || string(c.cert.AuthorityKeyId) != string(ca.SubjectKeyId) {
			t.Errorf("%s: %d bits, key ids %x %x", c.cert.Subject, public.N.BitLen(), c.cert.SubjectKeyId, c.cert.AuthorityKeyId)
		}
		if d := c.cert.NotAfter.Sub(c.cert.NotBefore); d != 365*24*time.Hour {
			t.Errorf("%s: valid for %s", c.cert.Subject, d)
		}
		if c.cert.SerialNumber.BitLen() > 128 || c.cert.SerialNumber.BitLen() < 90 {
			t.Errorf("%s: serial %s", c.cert.Subject, c.cert.SerialNumber)
		}
	}
	if ca.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || ca.ExtKeyUsage != nil || ca.DNSNames != nil {
		t.Errorf("CA: %v %v %v", ca.KeyUsage, ca.ExtKeyUsage, ca.DNSNames)
	}
	if cert.KeyUsage != x509.KeyUsageKeyEncipherment|x509.KeyUsageDigitalSignature || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("leaf: %v %v", cert.KeyUsage, cert.ExtKeyUsage)
	}
	if len(cert.IPAddresses) != 2 || !slices.Equal(cert.DNSNames, []string{"host.example"}) {
		t.Errorf("leaf: %v %v", cert.IPAddresses, cert.DNSNames)
	}
}

func TestCertificateOptions(t *testing.T) {
	t.Parallel()
	v := values{}
	v.add(t, "certificate", "root", quick(map[string]any{"is_ca": true, "common_name": "root", "duration": 3650, "organizations": []any{"A", "B"}}))
	v.add(t, "certificate", "middle", map[string]any{"is_ca": true, "ca": "root", "common_name": "middle", "key_type": "ed25519", "organization": "C"})
	v.add(t, "certificate", "leaf", map[string]any{
		"ca": "middle", "common_name": 42, "key_type": "ecdsa", "key_length": 521,
		"key_usage": []any{"digital_signature", "key_agreement"}, "extended_key_usage": []any{"client_auth", "server_auth", "client_auth"},
		"duration": 30.0, "alternative_names": []any{"*.example"}, "is_ca": nil,
	})
	root, middle, leaf := v.certificate(t, "root"), v.certificate(t, "middle"), v.certificate(t, "leaf")
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	others.AddCert(middle)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, DNSName: "a.example", KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	if len(leaf.ExtKeyUsage) != 2 || leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyAgreement || leaf.Subject.CommonName != "42" {
		t.Errorf("leaf: %v %v %q", leaf.ExtKeyUsage, leaf.KeyUsage, leaf.Subject.CommonName)
	}
	if k := leaf.PublicKey.(*ecdsa.PublicKey); k.Curve.Params().BitSize != 521 {
		t.Errorf("curve %s", k.Curve.Params().Name)
	}
	if _, ok := middle.PublicKey.(ed25519.PublicKey); !ok || middle.Subject.Organization[0] != "C" {
		t.Errorf("middle: %T %v", middle.PublicKey, middle.Subject)
	}
	if got := root.Subject.Organization; !slices.Equal(got, []string{"A", "B"}) && !slices.Equal(got, []string{"B", "A"}) {
		t.Errorf("organizations are %v", got)
	}
	if d := leaf.NotAfter.Sub(leaf.NotBefore); d != 30*24*time.Hour {
		t.Errorf("valid for %s", d)
	}
	if got := v["middle"].(map[string]any)["ca"]; got != v["root"].(map[string]any)["certificate"] {
		t.Error("the intermediate's ca is not the root")
	}
}

func TestOptionErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    string
		options map[string]any
		option  string
		want    string
	}{
		"type":          {"passwort", nil, "", `the type "passwort" is unknown; there are certificate, password, rsa, ssh, user`},
		"unknown":       {"password", map[string]any{"lenght": 1}, "lenght", "the type password has no such option; it has length"},
		"negative":      {"password", map[string]any{"length": -1}, "length", "must be 1 to 65536, or 0 for the default of 20, but is -1"},
		"user":          {"user", map[string]any{"length": 513}, "length", "must be 1 to 512, or 0 for the default of 20, but is 513"},
		"huge":          {"password", map[string]any{"length": uint64(1 << 63)}, "length", "must be a whole number in the range of int, but is 9223372036854775808"},
		"fraction":      {"password", map[string]any{"length": 1.5}, "length", "must be a whole number in the range of int, but is 1.5"},
		"text length":   {"password", map[string]any{"length": "20"}, "length", "must be a whole number, not text"},
		"rsa key type":  {"rsa", map[string]any{"key_type": "ecdsa"}, "key_type", "the type rsa has no such option; it has key_length"},
		"ssh key type":  {"ssh", map[string]any{"key_type": "dsa"}, "key_type", `must be rsa, ecdsa or ed25519, but is "dsa"`},
		"comment":       {"ssh", map[string]any{"ssh_comment": "a\nb"}, "ssh_comment", "must be one line"},
		"key length":    {"certificate", map[string]any{"is_ca": true, "key_length": 1024}, "key_length", "must be one of 2048, 3072, 4096 for rsa, but is 1024"},
		"curve":         {"certificate", map[string]any{"is_ca": true, "key_type": "ecdsa", "key_length": 2048}, "key_length", "must be one of 256, 384, 521 for ecdsa, but is 2048"},
		"no ca":         {"certificate", map[string]any{"common_name": "x"}, "ca", "must be provided, unless is_ca is true: the name of the variable with the CA that signs the certificate"},
		"own ca":        {"certificate", map[string]any{"ca": "v"}, "ca", "a certificate cannot be signed by itself; leave ca out for a root CA"},
		"ext usage":     {"certificate", map[string]any{"ca": "x", "extended_key_usage": []any{"serverAuth"}}, "extended_key_usage", `must be some of client_auth, code_signing, email_protection, server_auth, timestamping, but contains "serverAuth"`},
		"usage":         {"certificate", map[string]any{"ca": "x", "key_usage": []any{"sign"}}, "key_usage", `must be some of digital_signature, non_repudiation, key_encipherment, data_encipherment, key_agreement, key_cert_sign, crl_sign, encipher_only, decipher_only, but contains "sign"`},
		"signing leaf":  {"certificate", map[string]any{"ca": "x", "key_usage": []any{"key_cert_sign"}}, "key_usage", "key_cert_sign and crl_sign are only allowed if is_ca is true"},
		"mute ca":       {"certificate", map[string]any{"is_ca": true, "key_usage": []any{"crl_sign"}}, "key_usage", "must contain key_cert_sign, because is_ca is true"},
		"is_ca":         {"certificate", map[string]any{"ca": "x", "is_ca": "yes"}, "is_ca", "must be true or false, not text"},
		"names":         {"certificate", map[string]any{"ca": "x", "alternative_names": "a.example"}, "alternative_names", "must be a list, not text"},
		"name":          {"certificate", map[string]any{"ca": "x", "alternative_names": []any{map[string]any{}}}, "alternative_names", "item 0 must be text, not a map"},
		"empty name":    {"certificate", map[string]any{"ca": "x", "alternative_names": []any{""}}, "alternative_names", `"" is neither an IP address nor a host name`},
		"organizations": {"certificate", map[string]any{"ca": "x", "organization": "a", "organizations": []any{"b"}}, "organizations", "only one of organization and organizations may be given"},
		"duration":      {"certificate", map[string]any{"ca": "x", "duration": 1 << 40}, "duration", "must be 1 to 100000 days, or 0 for the default of 365, but is 1099511627776"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := new(Keys).Generate(Definition{Name: "v", Type: c.kind, Options: c.options}, values{}.find)
			var problem *OptionError
			if !errors.As(err, &problem) {
				t.Fatalf("error is %v", err)
			}
			if *problem != (OptionError{"v", c.option, c.want}) {
				t.Errorf("%s: %s", problem.Option, problem.Message)
			}
			if list := Validate(Definition{Name: "v", Type: c.kind, Options: c.options}); len(list) != 1 {
				t.Errorf("%d problems: %v", len(list), list)
			}
		})
	}
}

func TestAllOptionErrorsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := new(Keys).Generate(Definition{Name: "x", Type: "certificate", Options: map[string]any{"duration": "1y", "is_ca": 1, "foo": nil}}, nil)
	want := `cannot generate variable "x": option foo: the type certificate has no such option; it has common_name, organization, organizations, alternative_names, is_ca, ca, key_usage, extended_key_usage, duration, key_type, key_length
cannot generate variable "x": option is_ca: must be true or false, not a number
cannot generate variable "x": option ca: must be provided, unless is_ca is true: the name of the variable with the CA that signs the certificate
cannot generate variable "x": option duration: must be a whole number, not text`
	if err == nil || err.Error() != want {
		t.Errorf("error is:\n%v", err)
	}
}

// Parts returns the keys of generated values.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, kind := range Types() {
		d := Definition{Name: "x", Type: kind}
		if kind == "certificate" {
			d.Options = map[string]any{"is_ca": true, "common_name": "x"}
		}
		value, err := new(Keys).Generate(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := value.(map[string]any)
		if !slices.Equal(sortedKeys(m), Parts(kind)) {
			t.Errorf("%s has the parts %q, not %q", kind, sortedKeys(m), Parts(kind))
		}
	}
}
