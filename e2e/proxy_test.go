//go:build unix

package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// proxy is a proxy between the program and the agents that makes one message
// fail.
type proxy struct {
	ports   [2]int // one port for each port of an agent
	servers []*http.Server
	client  *http.Client

	mu sync.Mutex
	// fault is cut-before, cut-after, status, delay, hang, huge or foreign; for
	// update_settings also unknown, ignored, or half (the agent does not adopt the
	// certificate). Empty: no fault.
	fault  string
	method string // method of the message that fails
	lying  bool   // the proxy serves another certificate
	// meanwhile is called after the message with the fault "meanwhile" has
	// reached the agent, and before its answer is passed on.
	meanwhile func() error
}

// addProxy starts a proxy in front of the lab's agents.
func (l *lab) addProxy() error {
	foreign, foreignKey, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "somebody else"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil, nil)
	if err != nil {
		return err
	}
	bad := &tls.Certificate{Certificate: [][]byte{foreign.Raw}, PrivateKey: foreignKey}
	p := &proxy{
		client: &http.Client{
			// Another agent may listen there the next time.
			Transport: &http.Transport{TLSClientConfig: quick(&tls.Config{InsecureSkipVerify: true}), DisableKeepAlives: true},
			Timeout:   5 * time.Minute,
		},
	}
	l.proxy = p
	for i, agent := range l.mbus {
		config := quick(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.lying {
				return bad, nil
			}
			return l.servedAt(agent)
		}})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p.ports[i] = listener.Addr().(*net.TCPAddr).Port
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(fmt.Sprintf("127.0.0.1:%d", agent), w, r) })
		server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
		p.servers = append(p.servers, server)
		go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	}
	return nil
}

// quick makes connections agree on keys in the cheapest way: with the race detector, the
// usual way takes half of the time of all calls.
func quick(c *tls.Config) *tls.Config {
	c.CurvePreferences = []tls.CurveID{tls.CurveP256}
	return c
}

// servedAt returns the certificate that the agent at a port serves; if none answers, the
// wanted certificate.
func (l *lab) servedAt(port int) (*tls.Certificate, error) {
	id, err := l.identity(l.want)
	if err != nil {
		return nil, err
	}
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), quick(&tls.Config{InsecureSkipVerify: true}))
	if err == nil {
		leaf := conn.ConnectionState().PeerCertificates[0]
		conn.Close()
		l.keys.Lock()
		defer l.keys.Unlock()
		for _, other := range l.leaves {
			if leaf.Equal(other.leaf) {
				id = other
			}
		}
	}
	return &tls.Certificate{Certificate: [][]byte{id.leaf.Raw}, PrivateKey: id.key}, nil
}

func (p *proxy) close() {
	for _, s := range p.servers {
		_ = s.Close()
	}
	p.client.CloseIdleConnections()
}

// arm makes the next message of that method fail; an empty fault makes none fail.
func (p *proxy) arm(fault, method string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.method, p.lying = fault, method, false
}

// take returns the fault of the message, and resets it.
func (p *proxy) take(method string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "" || method != p.method {
		return ""
	}
	fault := p.fault
	p.fault = ""
	p.lying = fault == "foreign"
	return fault
}

// serve passes the message on to the agent, or produces the armed fault.
func (p *proxy) serve(agent string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	method := strings.ToLower(r.Method) + "_blob"
	var message struct{ Method string }
	if strings.HasSuffix(r.URL.Path, "/agent") && json.Unmarshal(body, &message) == nil {
		method = message.Method
	}
	fault := p.take(method)
	switch fault {
	case "cut-before", "foreign":
		panic(http.ErrAbortHandler)
	case "status":
		http.Error(w, "as planned", http.StatusInternalServerError)
		return
	case "hang":
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case "huge":
		w.Header().Set("Content-Length", strconv.Itoa(9<<30))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "delay":
		<-time.After(2 * time.Second)
	case "unknown":
		fmt.Fprint(w, `{"exception":{"message":"unknown message update_settings"}}`)
		return
	case "ignored":
		fmt.Fprint(w, `{"value":"ok"}`)
		return
	case "half":
		body = regexp.MustCompile(`"cert":{[^}]*}`).ReplaceAll(body, []byte(`"cert":{}`))
	}
	req := r.Clone(r.Context())
	req.RequestURI = ""
	req.URL.Scheme, req.URL.Host = "https", agent
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := p.client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees nearly the same as when nothing listens
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || fault == "cut-after" {
		panic(http.ErrAbortHandler)
	}
	if fault == "meanwhile" {
		if err := p.meanwhile(); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(data)
}
