package gen

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

const interopVariables = `
variables:
- {name: password, type: password}
- {name: long, type: password, options: {length: 40}}
- {name: ssh, type: ssh}
- {name: rsa, type: rsa}
- {name: root, type: certificate, options: {is_ca: true, common_name: root}}
- {name: middle, type: certificate, options: {is_ca: true, ca: root, common_name: middle, organization: us, duration: 30}}
- name: leaf
  type: certificate
  options: {ca: root, common_name: 10.0.0.6, alternative_names: [10.0.0.6, "*.example", "::1"], extended_key_usage: [client_auth, server_auth]}
- {name: deep, type: certificate, options: {ca: middle, common_name: 5, key_length: 2048}}
`

// bosh runs the BOSH CLI of the environment with a store.
func bosh(t *testing.T, store string) values {
	t.Helper()
	program := os.Getenv("BOOTSTRAP_BOSH")
	if program == "" {
		t.Skip("BOOTSTRAP_BOSH does not name a program")
	}
	manifest := filepath.Join(t.TempDir(), "manifest.yml")
	if err := os.WriteFile(manifest, []byte(interopVariables), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "interpolate", manifest, "--vars-store", store).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	v := values{}
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func interopDefinitions(t *testing.T) []Definition {
	t.Helper()
	var doc struct{ Variables []Definition }
	if err := yaml.Unmarshal([]byte(interopVariables), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Variables
}

// shape replaces secrets and times in a value, so that two values can be compared.
func shape(t *testing.T, value any) any {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	fields, ok := fieldsOf(doc)
	if !ok {
		s := doc.(string)
		return regexp.MustCompile(`[a-z0-9]`).ReplaceAllString(s, "x")
	}
	for k, v := range fields {
		switch {
		case strings.HasPrefix(v, "ssh-rsa "):
			v = "ssh-rsa " + strings.Repeat("x", len(v)-9) + v[len(v)-1:]
		case strings.HasPrefix(v, "-----"):
			lines := strings.SplitAfter(v, "\n")
			v = lines[0] + lines[len(lines)-2] + lines[len(lines)-1]
		default:
			v = regexp.MustCompile(`[0-9a-f]`).ReplaceAllString(v, "x")
		}
		fields[k] = v
	}
	return fields
}

// traits returns everything in a certificate that must not differ between two
// certificates.
func traits(t *testing.T, cert, signer *x509.Certificate) []any {
	t.Helper()
	kind, length := keyKind(cert.PublicKey)
	id, err := keyID(cert.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	var extensions []string
	for _, e := range cert.Extensions {
		mark := ""
		if e.Critical {
			mark = "!"
		}
		extensions = append(extensions, e.Id.String()+mark)
	}
	return []any{
		kind, length, cert.Version, cert.Subject.String(), cert.Issuer.String(), cert.SignatureAlgorithm,
		cert.NotAfter.Sub(cert.NotBefore), cert.KeyUsage, cert.ExtKeyUsage, cert.IsCA, cert.MaxPathLen, cert.MaxPathLenZero, cert.DNSNames, len(cert.IPAddresses),
		reflect.DeepEqual(id, cert.SubjectKeyId), reflect.DeepEqual(signer.SubjectKeyId, cert.AuthorityKeyId),
		cert.CheckSignatureFrom(signer) == nil, strings.Join(extensions, " "),
	}
}

func TestStoresAreAlike(t *testing.T) {
	t.Parallel()
	theirs, ours := bosh(t, filepath.Join(t.TempDir(), "store.yml")), values{}
	for _, d := range interopDefinitions(t) {
		ours.add(t, d.Type, d.Name, d.Options)
		if a, b := shape(t, ours[d.Name]), shape(t, theirs[d.Name]); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: ours is\n%v\ntheirs is\n%v", d.Name, a, b)
		}
		for name, v := range map[string]values{"ours": ours, "theirs": theirs} {
			if list := Check(d, v[d.Name], v.find, v.lateStart(t), month/2); len(list) > 0 {
				t.Errorf("%s: %s", name, findings(list))
			}
		}
	}
	plain := func(v values) values {
		fields := values{}
		for name, value := range v {
			if m, ok := fieldsOf(value); ok {
				fields[name] = map[string]any{"certificate": m["certificate"]}
			}
		}
		return fields
	}
	a, b := plain(ours), plain(theirs)
	for name, signer := range map[string]string{"root": "root", "middle": "root", "leaf": "root", "deep": "middle"} {
		x := traits(t, a.certificate(t, name), a.certificate(t, signer))
		y := traits(t, b.certificate(t, name), b.certificate(t, signer))
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s: ours is\n%v\ntheirs is\n%v", name, x, y)
		}
	}
}

// Each tool can sign certificates with the CAs in the other's store.
func TestSignsUnderTheOthersCA(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	theirs := bosh(t, filepath.Join(dir, "theirs.yml"))
	mixed := values{"root": theirs["root"], "middle": theirs["middle"]}
	ours := values{}
	for _, d := range interopDefinitions(t) {
		switch d.Name {
		case "leaf", "deep":
			mixed.add(t, d.Type, d.Name, d.Options)
		case "root", "middle":
			ours.add(t, d.Type, d.Name, d.Options)
		}
	}
	store := filepath.Join(dir, "ours.yml")
	text, err := yaml.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]values{"our leaf, their CA": mixed, "their leaf, our CA": bosh(t, store)} {
		cert := func(name string) *x509.Certificate {
			fields, _ := fieldsOf(v[name])
			c, err := parseCertificate(fields["certificate"])
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		roots, middles := x509.NewCertPool(), x509.NewCertPool()
		roots.AddCert(cert("root"))
		middles.AddCert(cert("middle"))
		for leaf, host := range map[string]string{"leaf": "10.0.0.6", "deep": ""} {
			if _, err := cert(leaf).Verify(x509.VerifyOptions{Roots: roots, Intermediates: middles, DNSName: host}); err != nil {
				t.Errorf("%s: %s: %v", name, leaf, err)
			}
			openssl(t, name+": "+leaf, cert("root"), cert("middle"), cert(leaf))
		}
	}
}

// openssl also verifies a chain with OpenSSL.
func openssl(t *testing.T, name string, root, middle, leaf *x509.Certificate) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		return
	}
	dir := t.TempDir()
	write := func(file string, c *x509.Certificate) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(block("CERTIFICATE", c.Raw)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"verify", "-x509_strict", "-CAfile", write("root", root), "-untrusted", write("middle", middle), write("leaf", leaf)}
	if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// lateStart returns a time at which all certificates are valid: they become valid within
// the second of their generation.
func (v values) lateStart(t *testing.T) (latest time.Time) {
	t.Helper()
	for _, value := range v {
		if from, _, ok := Validity(value); ok && from.After(latest) {
			latest = from
		}
	}
	return latest
}
