// Package proxy reads the environment variables that select proxies: HTTP_PROXY,
// HTTPS_PROXY, NO_PROXY and BOSH_ALL_PROXY. Errors never contain their values,
// which may contain a password.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// Dial is the type of net.Dialer.DialContext.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// How long a connection may take to open, and how often an idle one is checked.
const (
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
)

// Names returns the names of the variables in capitals; the names in small letters are
// valid, too.
func Names() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "BOSH_ALL_PROXY"}
}

// Variable returns the value of a variable with this name in capitals; if that is not
// set, with the name in small letters.
func Variable(getenv func(string) string, name string) string {
	if v := getenv(name); v != "" {
		return v
	}
	return getenv(strings.ToLower(name))
}

// Valid reports whether a text names a proxy, as a URL or as host:port.
func Valid(text string) bool {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(strings.TrimPrefix(text, "ssh+"))
	return err == nil && u.Hostname() != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}

// HTTP returns the function that selects the proxy for a URL; nil: no proxy is used.
func HTTP(getenv func(string) string) (func(*url.URL) (*url.URL, error), error) {
	c := httpproxy.Config{
		HTTPProxy: Variable(getenv, "HTTP_PROXY"), HTTPSProxy: Variable(getenv, "HTTPS_PROXY"), NoProxy: Variable(getenv, "NO_PROXY"),
	}
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if value != "" && (!Valid(value) || strings.HasPrefix(value, "ssh+")) {
			return nil, fmt.Errorf("%s in the environment is not a URL such as http://host:port", name)
		}
	}
	return c.ProxyFunc(), nil
}

// Direct connects without a proxy.
func Direct() *net.Dialer { return &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive} }

// SOCKS connects through the SOCKS proxy at the URL all, except to hosts in
// NO_PROXY.
func SOCKS(all string, getenv func(string) string) (Dial, error) {
	u, err := url.Parse(all)
	if err != nil || u.Hostname() == "" || u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, errors.New("want a URL such as socks5://host:port or ssh+socks5://user@host:22?private-key=/path/of/key")
	}
	through, err := proxy.FromURL(u, Direct())
	if err != nil {
		return nil, errors.New("want a URL such as socks5://host:port") // not the original error, whose text may contain the URL
	}
	perHost := proxy.NewPerHost(through, Direct())
	perHost.AddFromString(Variable(getenv, "NO_PROXY"))
	return perHost.DialContext, nil
}
