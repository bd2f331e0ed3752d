package agent_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"bootstrap/agent"
)

const password = "p/a:s+s#w0rd"

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// issue signs a certificate for names (addresses or host names). It is valid between
// two times that are relative to now.
func (a *authority) issue(t testing.TB, from, to time.Duration, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "agent"},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) good(t testing.TB) tls.Certificate {
	return a.issue(t, -time.Hour, 100*time.Hour, "127.0.0.1", "agent.test")
}

// serveOn serves handler over TLS until the test ends. get returns the
// certificate for each handshake.
func serveOn(t testing.TB, listener net.Listener, get func() tls.Certificate, handler http.Handler) {
	t.Helper()
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert := get()
		return &cert, nil
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(tls.NewListener(listener, config)); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
}

// serve serves on a free port of the loopback and returns the mbus URL.
func serve(t testing.TB, cert tls.Certificate, handler http.Handler) string {
	t.Helper()
	listener := listen(t)
	serveOn(t, listener, func() tls.Certificate { return cert }, handler)
	return mbus(listener.Addr().String())
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func mbus(address string) string { return "https://mbus:p%2Fa:s+s%23w0rd@" + address }

// newClient returns a client whose connections end with the test.
func newClient(t testing.TB, cfg agent.Config) *agent.Client {
	t.Helper()
	c, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// messages returns an agent's message endpoint: answer gets each request and
// returns the value, or an error for an exception.
func messages(t testing.TB, answer func(agent.Request) (any, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/agent", func(w http.ResponseWriter, r *http.Request) {
		if user, pw, ok := r.BasicAuth(); !ok || user != "mbus" || pw != password {
			w.Header().Set("WWW-Authenticate", `Basic realm=""`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client closed the connection
		}
		var request agent.Request
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&request); err != nil || request.Arguments == nil || r.Method != http.MethodPost {
			t.Errorf("bad request %s %q: %v", r.Method, body, err)
		}
		value, err := answer(request)
		reply := map[string]any{"value": value}
		if err != nil {
			reply = map[string]any{"exception": map[string]string{"message": err.Error()}}
		}
		data, err := json.Marshal(reply)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
	})
	return mux
}

func pong(agent.Request) (any, error) { return "pong", nil }

// pipes is a network in memory, for tests with their own time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6868} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, near := net.Pipe()
	far, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		go relay(near, far)
		go relay(far, near)
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// relay buffers bytes like a network: a writer need not wait for the reader.
func relay(to, from net.Conn) {
	chunks := make(chan []byte, 4)
	go func() {
		defer to.Close()
		for chunk := range chunks {
			if _, err := to.Write(chunk); err != nil {
				from.Close()
			}
		}
	}()
	defer close(chunks)
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		chunks <- buffer[:n]
	}
}
