package reach

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
)

// testCA returns a new CA as PEM, and a certificate for 127.0.0.1 that it signed.
func testCA(t *testing.T) (string, tls.Certificate) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, by = template, key
		}
		template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	ca, caKey := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}, nil, nil)
	leaf, key := issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, caKey)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})), tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
}

// TestFindAgent reaches an agent that has taken any part of a change of its settings. It
// sends no password to a server whose certificate neither CA has signed.
func TestFindAgent(t *testing.T) {
	t.Parallel()
	oldCA, oldCert := testCA(t)
	newCA, newCert := testCA(t)
	_, foreign := testCA(t)
	for name, c := range map[string]struct {
		password string // password that the agent accepts
		cert     tls.Certificate
		ca       string // CA that Find returns
	}{
		"nothing was taken":  {"old", oldCert, oldCA},
		"only the password":  {"new", oldCert, oldCA},
		"only the CA":        {"old", newCert, newCA},
		"all was taken":      {"new", newCert, newCA},
		"somebody else":      {"", foreign, ""},
		"an earlier attempt": {"earlier", oldCert, oldCA},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told atomic.Bool
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, password, ok := r.BasicAuth()
				if ok {
					told.Store(true)
				}
				if password != c.password {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = io.WriteString(w, `{"value":"pong"}`)
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.TLS = &tls.Config{Certificates: []tls.Certificate{c.cert}}
			s.StartTLS()
			defer s.Close()
			address := strings.TrimPrefix(s.URL, "https://")
			mbus := func(password string) string { return "https://mbus:" + password + "@" + address }
			agents := Agents{Secret: func(...string) {}, Report: report.New(func(report.Event) {})}
			how := kept.Agent{VM: "vm-1", MBus: mbus("old"), CA: oldCA, Next: &kept.Agent{MBus: mbus("new"), CA: newCA, Next: &kept.Agent{MBus: mbus("earlier"), CA: newCA}}}
			limit := time.Minute
			if c.password == "" {
				limit = 100 * time.Millisecond
			}
			_, found, err := agents.Find(t.Context(), Accesses(how, agent.Access{MBus: mbus("new"), CA: newCA}), limit)
			switch {
			case c.password == "" && (err == nil || told.Load()):
				t.Errorf("a foreign peer was accepted (%v) or told a password (%v)", err, told.Load())
			case c.password != "" && (err != nil || found != (agent.Access{MBus: mbus(c.password), CA: c.ca})):
				t.Errorf("found %q by the new CA: %v, error %v", found.MBus, found.CA == newCA, err)
			}
		})
	}
}
