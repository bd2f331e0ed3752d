package manifest

import (
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
)

// HealthCheck is a check of the service from this machine: HTTP, TCP or Exec is set.
type HealthCheck struct {
	HTTP     string        `json:"http,omitempty"`   // a URL; without a host it is the instance's
	TCP      string        `json:"tcp,omitempty"`    // host:port; without a host it is the instance's
	Exec     []string      `json:"exec,omitempty"`   // a program of this machine with its arguments
	Status   int           `json:"status,omitempty"` // expected HTTP status; 0: 200 to 399
	CA       string        `json:"ca,omitempty"`     // CA certificates (PEM) of an HTTPS check; empty: the system's
	Timeout  time.Duration `json:"timeout"`          // time limit for passing
	Interval time.Duration `json:"interval"`         // from the end of one attempt to the next
}

// The default times of a check.
const (
	healthTimeout  = time.Minute
	healthInterval = time.Second
)

// readHealth reads the health checks of an instance group.
func readHealth(c document.Value) []HealthCheck {
	var list []HealthCheck
	for _, item := range c.Items() {
		if !sections.Map(item, "instance_groups[].healthcheck[]") {
			continue
		}
		list = append(list, readHealthCheck(item))
	}
	return list
}

func readHealthCheck(c document.Value) HealthCheck {
	h := HealthCheck{Timeout: healthTimeout, Interval: healthInterval}
	kinds := 0
	for _, key := range []string{"http", "tcp", "exec"} {
		if !c.Get(key).IsNull() {
			kinds++
		}
	}
	if kinds != 1 {
		c.Fail("must have one of http, tcp and exec")
	}
	h.readHTTP(c)
	if place := c.Get("tcp"); !place.IsNull() {
		text, ok := place.Text()
		h.TCP = text
		if host, port, err := net.SplitHostPort(text); ok && (err != nil || !validPort(port, false) || anyAddress(host)) {
			place.Fail("must be HOST:PORT, or :PORT for the instance's address")
		}
	}
	if place := c.Get("exec"); !place.IsNull() {
		h.Exec = place.Texts()
		if place.IsList() && (len(h.Exec) == 0 || strings.TrimSpace(h.Exec[0]) == "") {
			place.Fail("must be a list: a program and its arguments")
		}
	}
	if place := c.Get("timeout"); !place.IsNull() && !place.Pending() {
		if h.Timeout = place.Seconds(); h.Timeout < time.Second {
			place.Fail("must be at least one second")
		}
	}
	if place := c.Get("interval"); !place.IsNull() {
		h.Interval = place.Seconds()
	}
	return h
}

// readHTTP reads http, and the keys that only it uses.
func (h *HealthCheck) readHTTP(c document.Value) {
	if place := c.Get("http"); !place.IsNull() {
		text, ok := place.Text()
		h.HTTP = text
		if u, err := url.Parse(text); ok && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || !validPort(u.Port(), true) || anyAddress(u.Hostname())) {
			place.Fail("must be a URL such as http://:8080/health, in which the host of the instance may be left out")
		}
	}
	for _, key := range []string{"status", "ca"} {
		if place := c.Get(key); !place.IsNull() && c.Get("http").IsNull() {
			place.Fail("is only for http")
		}
	}
	if place := c.Get("status"); !place.IsNull() {
		h.Status, _ = place.Whole(number.Bound{Least: 100, Most: 599, About: "an HTTP status"})
	}
	h.CA, _ = c.Get("ca").Text()
	if place := c.Get("ca"); h.CA != "" && h.HTTP != "" && !place.Pending() && !x509.NewCertPool().AppendCertsFromPEM([]byte(h.CA)) {
		place.Fail("contains no certificate in PEM")
	}
}

// anyAddress reports whether the host is 0.0.0.0 or ::, which would be this machine.
func anyAddress(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}

// validPort reports whether the text is a port, or empty if that is allowed.
func validPort(text string, empty bool) bool {
	if text == "" {
		return empty
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}
