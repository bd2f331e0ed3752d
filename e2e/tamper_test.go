//go:build unix

package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// tamper puts an attacker between the program and the agent of the script's VM, at
// $TAMPER_PORT and with the agent's own certificate:
//
//	tamper replace OLD NEW...  replaces text in the agent's answers; @FILE is replaced by its contents
//	tamper blob                changes a byte of each download
//	tamper hang FILE           begins a download, creates FILE, and sends no more
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: tamper {replace OLD NEW... | blob | hang FILE}")
	}
	change, err := tampering(ts, args)
	ts.Check(err)
	unquote := func(name string) []byte { return []byte(strings.ReplaceAll(ts.Getenv(name), `\n`, "\n")) }
	own, err := tls.X509KeyPair(unquote("CERTIFICATE"), unquote("PRIVATE_KEY"))
	ts.Check(err)
	port, err := freePort()
	ts.Check(err)
	ts.Setenv("TAMPER_PORT", strconv.Itoa(port))
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	ts.Check(err)
	target := &url.URL{Scheme: "https", Host: "127.0.0.1:" + ts.Getenv("MBUS_PORT")}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // of this test's own agent
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		ModifyResponse: change,
		FlushInterval:  -1,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	go func() { _ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{own}})) }()
	ts.Defer(func() { server.Close(); transport.CloseIdleConnections() })
}

// tampering returns the function that changes an answer of the agent.
func tampering(ts *testscript.TestScript, args []string) (func(*http.Response) error, error) {
	download := func(r *http.Response) bool {
		return r.Request.Method == http.MethodGet && strings.HasPrefix(r.Request.URL.Path, "/blobs/")
	}
	switch {
	case args[0] == "replace" && len(args)%2 == 1:
		for i, arg := range args {
			if file, ok := strings.CutPrefix(arg, "@"); ok {
				args[i] = ts.ReadFile(file)
			}
		}
		words := strings.NewReplacer(args[1:]...)
		return func(r *http.Response) error {
			if download(r) {
				return nil
			}
			return rewrite(r, func(body []byte) []byte { return []byte(words.Replace(string(body))) })
		}, nil
	case args[0] == "blob" && len(args) == 1:
		return func(r *http.Response) error {
			if !download(r) {
				return nil
			}
			return rewrite(r, func(body []byte) []byte {
				body[len(body)-1] ^= 1
				return body
			})
		}, nil
	case args[0] == "hang" && len(args) == 2:
		file := ts.MkAbs(args[1])
		return func(r *http.Response) error {
			if download(r) {
				r.Body = &hanging{ReadCloser: r.Body, began: file, gone: r.Request.Context().Done()}
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("cannot tamper as %q", args)
}

func rewrite(r *http.Response, change func([]byte) []byte) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = change(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// hanging is a download that stops after the first byte.
type hanging struct {
	io.ReadCloser
	began string // file that is created when the download begins
	gone  <-chan struct{}
	sent  bool
}

func (h *hanging) Read(p []byte) (int, error) {
	if !h.sent {
		h.sent = true
		return h.ReadCloser.Read(p[:1])
	}
	if err := os.WriteFile(h.began, nil, 0o600); err != nil {
		return 0, err
	}
	<-h.gone
	return 0, io.ErrUnexpectedEOF
}
