package agenttest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/agent"
)

// watch is a proxy between client and agent that compares the shapes of the
// agent's replies with those of the real one.
type watch struct {
	t         testing.TB
	transport *http.Transport
	base      string
	shapes    map[string]*Shape

	record *recording // nil: nothing is recorded

	mu    sync.Mutex
	tasks map[string]string // id -> method
	calls map[string]int
}

// newWatch starts a proxy on its own port; the returned client goes through it.
func newWatch(t testing.TB, target Target, shapes map[string]*Shape) (*watch, *agent.Client) {
	t.Helper()
	base, user, password := target.base(t)
	w := &watch{t: t, transport: target.transport(t), base: base, shapes: shapes, tasks: map[string]string{}, calls: map[string]int{}, record: recordingFromEnv()}
	cert, ca := certificate(t)
	server := httptest.NewUnstartedServer(w)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	at := "https://" + user + ":" + escape(password) + "@" + server.Listener.Addr().String()
	c, err := agent.New(agent.Config{URL: at, CA: ca, ReplyTo: "agenttest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return w, c
}

func escape(password string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40", ":", "%3A", "#", "%23", "?", "%3F").Replace(password)
}

func certificate(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (w *watch) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var request []byte
	body := io.Reader(in.Body)
	if in.URL.Path == "/agent" {
		var err error
		if request, err = io.ReadAll(in.Body); err != nil {
			return // the client closed the connection
		}
		body = bytes.NewReader(request)
	}
	req, err := http.NewRequestWithContext(in.Context(), in.Method, w.base+in.URL.Path, body)
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Header = in.Header.Clone()
	req.ContentLength = in.ContentLength
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler) // for the client, the agent itself has hung up
	}
	defer resp.Body.Close()
	if in.URL.Path != "/agent" {
		out.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(out, resp.Body)
		return
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if resp.StatusCode == http.StatusOK {
		w.check(request, data)
	}
	out.WriteHeader(resp.StatusCode)
	_, _ = out.Write(data)
}

// envelope matches the beginning of an exception of a known message.
var envelope = regexp.MustCompile(`^Action Failed ([a-z_]+): `)

func (w *watch) check(request, data []byte) {
	var message agent.Request
	if err := json.Unmarshal(request, &message); err != nil {
		w.t.Errorf("the client sends %q: %v", request, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[message.Method]++
	w.record.add(message, data)
	var reply map[string]json.RawMessage
	if err := json.Unmarshal(data, &reply); err != nil || len(reply) != 1 {
		w.t.Errorf("%s: %q is no reply", message.Method, data)
		return
	}
	if raw, ok := reply["exception"]; ok {
		var e map[string]string
		if err := json.Unmarshal(raw, &e); err != nil || len(e) != 1 || e["message"] == "" {
			w.t.Errorf("%s: %q is no exception", message.Method, raw)
		}
		m := envelope.FindStringSubmatch(e["message"])
		if !strings.HasPrefix(e["message"], "unknown message "+message.Method) && (m == nil || m[1] != message.Method) {
			w.t.Errorf("%s: the exception %q has no envelope", message.Method, e["message"])
		}
		return
	}
	method := message.Method
	id, running := taskID(data)
	if method == "get_task" && len(message.Arguments) == 1 {
		asked, _ := message.Arguments[0].(string)
		if running && id == asked {
			return
		}
		method = w.tasks[asked]
	} else if running {
		w.tasks[id] = method
		return
	}
	var value any
	if err := json.Unmarshal(reply["value"], &value); err != nil {
		w.t.Errorf("%s: %v", method, err)
	}
	if shape := w.shapes[method]; shape != nil {
		for _, problem := range shape.Check(method, value) {
			w.t.Error(problem)
		}
	}
}
