package artifact

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"bootstrap/internal/guard"
)

// configError is a wrong setting: another attempt does not help.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

// maxHeader limits the head of a reply.
const maxHeader = 1 << 20

// dialFunc is the type of net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// network is how this machine reaches servers.
type network struct {
	getenv func(string) string
	dial   dialFunc    // nil: directly or through BOSH_ALL_PROXY
	tls    *tls.Config // nil: the system's roots
}

// client returns an HTTP client that goes through the proxies of the
// environment: HTTP_PROXY, HTTPS_PROXY, NO_PROXY and, below them,
// BOSH_ALL_PROXY. done closes its connections.
func (n network) client() (client *http.Client, done func(), err error) {
	proxyFor, err := n.httpProxy()
	if err != nil {
		return nil, nil, err
	}
	dial, err := n.dialer()
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{
		Proxy:               proxyFor,
		DialContext:         guard.Dial(dial),
		TLSClientConfig:     n.tls.Clone(),
		TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2:   true,
		// A server that compresses the file breaks sizes and ranges.
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

// env returns a variable by its upper-case name, else by its lower-case one.
func (n network) env(name string) string {
	if v := n.getenv(name); v != "" {
		return v
	}
	return n.getenv(strings.ToLower(name))
}

func (n network) httpProxy() (func(*http.Request) (*url.URL, error), error) {
	c := httpproxy.Config{HTTPProxy: n.env("HTTP_PROXY"), HTTPSProxy: n.env("HTTPS_PROXY"), NoProxy: n.env("NO_PROXY")}
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if value != "" && !proxyURL(value) {
			// The value may contain a password.
			return nil, &configError{fmt.Sprintf("%s in the environment is not a URL such as http://host:port", name)}
		}
	}
	choose := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }, nil
}

// proxyURL tells whether a proxy is given as URL or as host:port.
func proxyURL(text string) bool {
	for _, t := range []string{text, "http://" + text} {
		if u, err := url.Parse(t); err == nil && u.Hostname() != "" {
			switch u.Scheme {
			case "http", "https", "socks5", "socks5h":
				return true
			}
		}
	}
	return false
}

// dialer connects directly or through BOSH_ALL_PROXY, except to hosts of NO_PROXY.
func (n network) dialer() (dialFunc, error) {
	direct := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if n.dial != nil {
		return n.dial, nil
	}
	all := n.getenv("BOSH_ALL_PROXY")
	if all == "" {
		return direct.DialContext, nil
	}
	if strings.HasPrefix(all, "ssh+") {
		return nil, &configError{"BOSH_ALL_PROXY is an ssh+socks5 URL, which downloads cannot use here: " +
			"run ssh -N -D 1080 USER@HOST beside it and set BOSH_ALL_PROXY=socks5://127.0.0.1:1080"}
	}
	u, err := url.Parse(all)
	if err != nil || u.Hostname() == "" || u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, &configError{"BOSH_ALL_PROXY in the environment is not a URL such as socks5://host:port"}
	}
	through, err := proxy.FromURL(u, direct)
	if err != nil {
		return nil, &configError{"cannot use BOSH_ALL_PROXY as a proxy"}
	}
	perHost := proxy.NewPerHost(through, direct)
	perHost.AddFromString(n.env("NO_PROXY"))
	return perHost.DialContext, nil
}
