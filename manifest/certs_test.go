package manifest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/manifest/document"
)

// pair is a certificate with its key, also as PEM.
type pair struct {
	*x509.Certificate
	signer    *ecdsa.PrivateKey
	text, key string
}

// issue returns a certificate for the addresses, valid from begin to end in days from
// now. If by is nil, it is a CA.
func issue(t *testing.T, by *pair, name string, begin, end int, usage x509.ExtKeyUsage, names ...string) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	days := func(n int) time.Time { return time.Now().Add(time.Duration(n) * 24 * time.Hour) }
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name))), Subject: pkix.Name{CommonName: name}, NotBefore: days(begin), NotAfter: days(end),
		BasicConstraintsValid: true, IsCA: by == nil, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Certificate, by.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return &pair{cert, key, encode("CERTIFICATE", der), encode("EC PRIVATE KEY", encoded)}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	const server = x509.ExtKeyUsageServerAuth
	ca := issue(t, nil, "ca", -9, 900, server)
	old := issue(t, nil, "old ca", -9, -1, server)
	other := issue(t, nil, "other ca", -9, 900, server)
	good := issue(t, ca, "agent", -1, 400, server, "127.0.0.1", "vm.example.com")
	of := func(end int, names ...string) *pair { return issue(t, ca, "agent", -2, end, server, names...) }
	early := issue(t, ca, "agent", 3, 400, server, "127.0.0.1")
	garbage := strings.Replace(good.text, "MII", "AII", 1)
	const (
		place = "resource_pools[0].env.bosh.mbus.cert."
		root  = "cloud_provider.cert.ca: "
	)
	for name, c := range map[string]struct {
		ca, cert, key string
		want          string // empty: no problem is reported
		agent         *pair  // replaces cert and key
	}{
		"good":                  {ca.text, good.text, good.key, "", nil},
		"good, among others":    {other.text + old.text + ca.text, good.text, good.key, "", nil},
		"no certificate":        {ca.text, "", "", "", nil},
		"no CA, wrong names":    {"", "", "", "warning: " + place + "certificate: is never verified, because cloud_provider.cert.ca is missing", of(400)},
		"own CA":                {good.text, good.text, good.key, "", nil},
		"other key":             {ca.text, good.text, other.key, place + "private_key: is not the private key of the agent's certificate: it does not belong to the certificate", nil},
		"key is none":           {ca.text, good.text, good.text, place + "private_key: is not the private key of the agent's certificate: it contains no private key in PEM form", nil},
		"no key":                {ca.text, good.text, "", place + "private_key: must be provided, since certificate is", nil},
		"key alone":             {ca.text, "", good.key, place + "certificate: must be provided, since private_key is", nil},
		"damaged":               {ca.text, garbage, good.key, place + "certificate: contains a certificate in PEM that is damaged or incomplete", nil},
		"no PEM":                {ca.text, "certificate", good.key, place + "certificate: must be a certificate in PEM", nil},
		"damaged CA":            {ca.text + garbage, good.text, good.key, root + "contains a certificate in PEM that is damaged or incomplete", nil},
		"other CA":              {other.text, good.text, good.key, root + `must be the CA that signed the agent's certificate (resource_pools[0].env.bosh.mbus.cert.certificate), which is "CN=ca", but is "CN=other ca"`, nil},
		"other names":           {ca.text, "", "", place + "certificate: must be for 127.0.0.1, the host of cloud_provider.mbus at which the agent is reached, but is for a.b, 10.0.0.9; generate a new one with alternative_names: [127.0.0.1]", of(400, "10.0.0.9", "a.b")},
		"no names":              {ca.text, "", "", "but has no names except the common name", of(400)},
		"expired":               {ca.text, "", "", place + `certificate: the certificate "CN=agent" expired on `, of(-1, "127.0.0.1")},
		"not yet valid":         {ca.text, early.text, early.key, place + `certificate: the certificate "CN=agent" is not valid before `, nil},
		"expires soon":          {ca.text, "", "", "warning: " + place + `certificate: the certificate "CN=agent" expires on `, of(10, "127.0.0.1")},
		"CA expired":            {old.text, "", "", root + `the certificate "CN=old ca" expired on `, issue(t, old, "agent", -2, 400, server, "127.0.0.1")},
		"CA alone expired":      {old.text, "", "", root + `the certificate "CN=old ca" expired on `, nil},
		"CA expired beside one": {old.text + ca.text, "", "", "", nil},
		"for clients":           {ca.text, "", "", place + "certificate: must be a certificate for servers", issue(t, ca, "agent", -2, 400, x509.ExtKeyUsageClientAuth, "127.0.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.agent != nil {
				c.cert, c.key = c.agent.text, c.agent.key
			}
			text := minimal
			if c.ca != "" {
				text += "  cert: {ca: ((ca))}\n"
			}
			text = strings.Replace(text, "stemcell: {", "env: {bosh: {mbus: {cert: {certificate: ((cert)), private_key: ((key))}}}}, stemcell: {", 1)
			dir := t.TempDir()
			opts := document.Options{}
			for name, value := range map[string]string{"ca": c.ca, "cert": c.cert, "key": c.key} {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
					t.Fatal(err)
				}
				opts.VarFiles = append(opts.VarFiles, name+"="+path)
			}
			m, err := Load(t.Context(), write(t, text), opts)
			message := ""
			if err == nil {
				message = document.Problems(m.Warnings).Error()
			} else {
				message = err.Error()
			}
			if c.want == "" && message != "" || !strings.Contains(message, c.want) {
				t.Errorf("got:\n%s\nwant:\n%s", message, c.want)
			}
			if err == nil && c.want != "" && !strings.HasPrefix(c.want, "warning: ") {
				t.Errorf("only warned of: %s", message)
			}
			if strings.Contains(message, "\n") {
				t.Errorf("more is message than the one thing: %s", message)
			}
			for _, line := range strings.Split(c.key, "\n") {
				if len(line) > 20 && !strings.HasPrefix(line, "-----") && strings.Contains(message, line) {
					t.Errorf("shows the key: %s", message)
				}
			}
			opts.Lenient = true
			if _, err := Load(t.Context(), write(t, text), opts); err != nil && !strings.Contains(name, "damaged CA") {
				t.Errorf("refused where no VM is made: %v", err)
			}
		})
	}
}

// If a variable has a file of certificates, the problem names the file and the place in
// it. A certificate that is not generated yet is not checked.
func TestCertificatePlaces(t *testing.T) {
	t.Parallel()
	ca := issue(t, nil, "ca", -9, 900, x509.ExtKeyUsageServerAuth)
	agent := issue(t, ca, "agent", -9, 900, x509.ExtKeyUsageServerAuth, "10.0.0.1")
	dir := t.TempDir()
	vars := filepath.Join(dir, "vars.yml")
	block := func(key, text string) string {
		return "  " + key + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	}
	if err := os.WriteFile(vars, []byte("ssl:\n"+block("ca", ca.text)+block("certificate", agent.text)+block("private_key", agent.key)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := replaced(t, "stemcell: {", "env: {bosh: {mbus: {cert: ((ssl))}}}, stemcell: {", "sesame", "((password))", "127.0.0.1", "vm.example.com") +
		"  cert: ((ssl))\nvariables:\n- {name: password, type: password}\n"
	opts := document.Options{VarsFiles: []string{vars}, VarsStore: filepath.Join(dir, "store.yml"), Generate: document.Plan}
	_, err := Load(t.Context(), write(t, text), opts)
	var problems *document.Problems
	if !errors.As(err, &problems) || len(*problems) != 1 {
		t.Fatalf("got %v", err)
	}
	p := (*problems)[0]
	if p.Pos.File != vars || p.Pos.Line != 2+strings.Count(block("ca", ca.text), "\n") || !strings.Contains(p.Message, "must be for vm.example.com") {
		t.Errorf("got %v", p)
	}
	text = strings.Replace(text, "vm.example.com", "((host))", 1) + "- {name: host, type: password}\n"
	if _, err := Load(t.Context(), write(t, text), opts); err != nil {
		t.Errorf("a host that is not known yet: %v", err)
	}
}

// With the host 0.0.0.0, the agent is reached at the address of the instance. Its
// certificate is verified for that address, or, if it does not have that, for its first
// name.
func TestCertificateOfInstance(t *testing.T) {
	t.Parallel()
	server := x509.ExtKeyUsageServerAuth
	ca := issue(t, nil, "ca", -2, 400, server)
	for _, c := range []struct {
		names                  []string
		networks, want, verify string
	}{
		{[]string{"10.0.2.10"}, "", "", ""},
		{[]string{"10.0.2.11"}, "", "", "10.0.2.11"},
		{[]string{"10.0.2.11", "web.internal"}, "[{name: default}]", "", "web.internal"},
		{[]string{"10.0.2.12", "10.0.2.11"}, "[{name: default}]", "", ""},
		{nil, "[{name: default}]", "must have a name or an address for which it is verified; generate a new one with alternative_names: [vm]", ""},
		{[]string{"web.internal"}, "[{name: cloud}]", `cloud_provider.mbus: must have the host at which the agent is reached: 0.0.0.0 stands for the address of the instance, but the network "cloud" is dynamic`, ""},
	} {
		leaf := issue(t, ca, "agent", -2, 400, server, c.names...)
		dir := t.TempDir()
		var opts document.Options
		for name, value := range map[string]string{"ca": ca.text, "cert": leaf.text, "key": leaf.key} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
			opts.VarFiles = append(opts.VarFiles, name+"="+path)
		}
		pairs := []string{"{password: hash}", "{mbus: {cert: {certificate: ((cert)), private_key: ((key))}}}", "0.0.0.0:6868\n", "0.0.0.0:6868\n  cert: {ca: ((ca))}\n"}
		if c.networks != "" {
			pairs = append(pairs, "[{name: default, static_ips: [10.0.2.10]}]", c.networks)
		}
		if strings.Contains(c.networks, "cloud") {
			pairs = append(pairs, "azs: [z2]", "azs: ~")
		}
		m, err := loadFiles(t, directorStyle, opts, pairs...)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v %s: %v\nwant %s", c.names, c.networks, err, c.want)
			}
		case err != nil || len(m.Warnings) > 0:
			t.Errorf("%v %s: %v", c.names, c.networks, err)
		default:
			if c.networks != "" {
				m, err = m.Place("z2", map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.2.12/32")})
			}
			if err != nil || m.CPI.MBusURL.Fragment != c.verify || !strings.HasSuffix(m.CPI.MBus, strings.TrimSuffix("#"+c.verify, "#")) {
				t.Errorf("%v %s: %v, %s", c.names, c.networks, err, m.CPI.MBus)
			}
		}
	}
}

// A wrong certificate of an agent at 0.0.0.0 is reported with mbus and the VM's address.
func TestCertificateOfUnspecifiedHost(t *testing.T) {
	t.Parallel()
	ca := issue(t, nil, "ca", -2, 400, x509.ExtKeyUsageServerAuth)
	leaf := issue(t, ca, "agent", -2, 400, x509.ExtKeyUsageServerAuth, "10.0.0.9")
	text := replaced(t, "{name: default, type: dynamic}", "{name: default, type: manual, subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1}]}",
		"networks: [{name: default}]", "networks: [{name: default, static_ips: [10.0.0.5]}]", "@127.0.0.1:", "@0.0.0.0:",
		"stemcell: {", "env: {bosh: {mbus: {cert: {certificate: ((cert)), private_key: ((key))}}}}, stemcell: {") + "  cert: {ca: ((ca))}\n"
	dir := t.TempDir()
	opts := document.Options{}
	for name, value := range map[string]string{"ca": ca.text, "cert": leaf.text, "key": leaf.key} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		opts.VarFiles = append(opts.VarFiles, name+"="+path)
	}
	_, err := Load(t.Context(), write(t, text), opts)
	want := "must be for the address of the VM, but is for 10.0.0.9: cloud_provider.mbus has the host 0.0.0.0, at which no agent is reached; write 10.0.0.5 there"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
