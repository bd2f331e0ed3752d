package agent

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"time"

	"bootstrap/internal/atomicfile"

	"bootstrap/internal/guard"
	"bootstrap/local/machine"
)

const (
	maxMessage   = 256 << 20
	stallTimeout = 2 * time.Minute // limit for a body from which no data arrives
	closeGrace   = 2 * time.Second // time for the last replies when the agent ends
)

// serveHTTP serves the message bus until ctx ends.
func (b *messageBus) serveHTTP(ctx context.Context, listener net.Listener) error {
	a := b.agent
	bus, err := a.settings.bus()
	if err != nil {
		listener.Close()
		return err
	}
	cert, err := a.certificates.of(bus)
	if err != nil {
		listener.Close()
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/agent", authorized(bus, b.handleMessage))
	mux.HandleFunc("/blobs/", authorized(bus, a.blobs.handle))
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	secured := tls.NewListener(listener, &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{cert},
	})
	a.lock.ready()
	served := guard.Start(ctx, func() error { return server.Serve(secured) })
	select {
	case err = <-served:
		return fmt.Errorf("cannot continue to listen: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if server.Shutdown(closing) != nil {
		_ = server.Close()
	}
	<-served
	return nil
}

// authorized requires the credentials in the URL of the bus.
func authorized(bus *url.URL, handle http.HandlerFunc) http.HandlerFunc {
	password, _ := bus.User.Password()
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(bus.User.Username()+":"+password))
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm=""`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handle(w, r)
	}
}

// certificates are the certificates that the message bus can have.
type certificates struct {
	vm       machine.VM
	name     string // name of the VM
	settings *settings
}

// of returns the certificate in the settings, or the VM's own certificate.
func (c certificates) of(bus *url.URL) (tls.Certificate, error) {
	given := c.settings.cert()
	if given.Certificate == "" && given.PrivateKey == "" {
		cert, err := c.own(bus)
		if err != nil {
			return cert, fmt.Errorf("cannot make a certificate for the message bus: %w", err)
		}
		return cert, nil
	}
	cert, err := tls.X509KeyPair([]byte(given.Certificate), []byte(given.PrivateKey))
	if err != nil {
		return cert, fmt.Errorf("cannot use the certificate in the VM's settings (env.bosh.mbus.cert): %w", err)
	}
	return cert, nil
}

// own returns the VM's own certificate, which the first call makes.
func (c certificates) own(bus *url.URL) (tls.Certificate, error) {
	file := c.vm.Own("agent_cert.pem")
	data, err := os.ReadFile(file)
	if err == nil {
		return tls.X509KeyPair(data, data)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: c.name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(bus.Hostname()); ip == nil {
		template.DNSNames = append(template.DNSNames, bus.Hostname())
	} else if !ip.IsUnspecified() {
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	var text bytes.Buffer
	for _, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := pem.Encode(&text, block); err != nil {
			return tls.Certificate{}, err
		}
	}
	if err := atomicfile.WriteMode(file, text.Bytes(), 0o600); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(text.Bytes(), text.Bytes())
}

// moving is a body that fails if no data arrives for stallTimeout.
type moving struct {
	io.Reader
	control *http.ResponseController
}

func (m *moving) Read(p []byte) (int, error) {
	_ = m.control.SetReadDeadline(time.Now().Add(stallTimeout))
	return m.Reader.Read(p)
}

func body(w http.ResponseWriter, r *http.Request) io.Reader {
	return &moving{r.Body, http.NewResponseController(w)}
}

func (b *messageBus) handleMessage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	data, err := io.ReadAll(io.LimitReader(body(w, r), maxMessage+1))
	if err != nil || len(data) > maxMessage {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// The deadline applies to the client, not to the work on its message.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	reply, err := b.answer(r.Context(), data)
	if err == nil {
		data, err = json.Marshal(reply)
	}
	if err != nil {
		b.agent.log.Warn("cannot read or answer a message", "cause", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(data)
}

func (b blobs) handle(w http.ResponseWriter, r *http.Request) {
	id := path.Base(r.URL.Path)
	if r.URL.Path[len(r.URL.Path)-1] == '/' {
		id = ""
	}
	switch r.Method {
	case http.MethodPut:
		if err := b.write(id, body(w, r)); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, err.Error())
			return
		}
		w.WriteHeader(http.StatusCreated)
	case http.MethodGet:
		b.send(w, id)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (b blobs) send(w http.ResponseWriter, id string) {
	f, info, err := b.open(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.WriteHeader(http.StatusNotFound)
		return
	case err != nil:
		b.log.Error("cannot read a blob", "blob", id, "cause", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer f.Close()
	// The length allows the client to notice an interrupted transfer.
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	control := http.NewResponseController(w)
	defer control.SetWriteDeadline(time.Time{}) // the connection may be used again
	for {
		_ = control.SetWriteDeadline(time.Now().Add(stallTimeout))
		n, err := io.CopyN(w, f, 1<<20)
		if err != nil || n == 0 {
			break
		}
	}
}
