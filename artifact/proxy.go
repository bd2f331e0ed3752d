package artifact

import (
	"context"
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

// configError is a setting that has to be changed first.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

// maxHeader bounds the head of a reply.
const maxHeader = 1 << 20

// dialFunc is that of net.Dialer.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// client returns an HTTP client that goes through the proxies of the
// environment: HTTP_PROXY, HTTPS_PROXY, NO_PROXY and, below them,
// BOSH_ALL_PROXY. done closes its connections.
func (s *Store) client() (client *http.Client, done func(), err error) {
	proxyFor, err := s.httpProxy()
	if err != nil {
		return nil, nil, err
	}
	dial, err := s.dialer()
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{
		Proxy:               proxyFor,
		DialContext:         guard.Dial(dial),
		TLSClientConfig:     s.tls.Clone(),
		TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2:   true,
		// A server that packs the file anew breaks sizes and ranges.
		DisableCompression: true,
		// The bodies of errors are not read at all.
		MaxResponseHeaderBytes: maxHeader,
	}
	return &http.Client{Transport: t, CheckRedirect: redirect}, t.CloseIdleConnections, nil
}

// redirect keeps to the first host what is meant for it.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return &configError{"the server redirects more than 10 times"}
	}
	// The address may be signed: it is no business of the next host.
	req.Header.Del("Referer")
	first := via[0].URL
	if req.URL.Scheme == first.Scheme && req.URL.Host == first.Host && req.URL.User == nil {
		req.URL.User = first.User
	}
	return nil
}

// env reads a variable by its name in capitals, else in small letters.
func (s *Store) env(name string) string {
	if v := s.getenv(name); v != "" {
		return v
	}
	return s.getenv(strings.ToLower(name))
}

func (s *Store) httpProxy() (func(*http.Request) (*url.URL, error), error) {
	c := httpproxy.Config{HTTPProxy: s.env("HTTP_PROXY"), HTTPSProxy: s.env("HTTPS_PROXY"), NoProxy: s.env("NO_PROXY")}
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if value != "" && !proxyURL(value) {
			// Without the value, for it may hold a password.
			return nil, &configError{fmt.Sprintf("%s in the environment is no url such as http://host:port", name)}
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

// dialer connects directly or as BOSH_ALL_PROXY says, NO_PROXY excepted.
func (s *Store) dialer() (dialFunc, error) {
	direct := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if s.dial != nil {
		return s.dial, nil
	}
	all := s.getenv("BOSH_ALL_PROXY")
	if all == "" {
		return direct.DialContext, nil
	}
	if strings.HasPrefix(all, "ssh+") {
		return nil, &configError{"BOSH_ALL_PROXY is an ssh+socks5 url, which downloads do not know yet: " +
			"run ssh -N -D 1080 USER@HOST beside it and set BOSH_ALL_PROXY=socks5://127.0.0.1:1080"}
	}
	u, err := url.Parse(all)
	if err != nil || u.Hostname() == "" || u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, &configError{"BOSH_ALL_PROXY in the environment is no url such as socks5://host:port"}
	}
	through, err := proxy.FromURL(u, direct)
	if err != nil {
		return nil, &configError{"cannot use BOSH_ALL_PROXY as a proxy"}
	}
	perHost := proxy.NewPerHost(through, direct)
	perHost.AddFromString(s.env("NO_PROXY"))
	return perHost.DialContext, nil
}
