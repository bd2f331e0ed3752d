package download

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
)

// configError is a wrong setting: repeating the attempt does not help.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

// maxHeader limits the head of a reply.
const maxHeader = 1 << 20

// Network is how this machine reaches servers.
type Network struct {
	Getenv func(string) string
	Dial   proxy.Dial  // nil: directly
	TLS    *tls.Config // nil: the system's roots
}

// client returns an HTTP client that goes through the proxies of the
// environment. done closes its connections.
func (n Network) client() (client *http.Client, done func(), err error) {
	choose, err := proxy.HTTP(n.Getenv)
	if err != nil {
		return nil, nil, &configError{err.Error()}
	}
	dial := n.Dial
	if dial == nil {
		dial = proxy.Direct().DialContext
	}
	t := &http.Transport{
		Proxy:               func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
		DialContext:         guard.Dial(dial),
		TLSClientConfig:     n.TLS.Clone(),
		TLSHandshakeTimeout: 30 * time.Second,
		// If a server compressed the file, sizes and ranges would not fit.
		DisableCompression: true,
		// The bodies of errors are not read at all.
		MaxResponseHeaderBytes: maxHeader,
	}
	return &http.Client{Transport: t, CheckRedirect: redirect}, t.CloseIdleConnections, nil
}

// redirect sends user and password to the first host only.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return &configError{"the server redirects more than 10 times"}
	}
	// The address may contain a signature, which the next host must not see.
	req.Header.Del("Referer")
	first := via[0].URL
	if req.URL.Scheme == first.Scheme && req.URL.Host == first.Host && req.URL.User == nil {
		req.URL.User = first.User
	}
	return nil
}
