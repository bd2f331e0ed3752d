package monitfile

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// icmp reads a test by ICMP.
func (p *parser) icmp(from int) bool {
	p.next()
	if !p.accept("type") || !p.accept("echo") {
		return p.expected(from, `"type echo"`)
	}
	if p.accept("count") && !p.need(from, "a number", number) {
		return false
	}
	return p.netTimeout(from)
}

// netTimeout reads the timeout of a test, which may be missing.
func (p *parser) netTimeout(from int) bool {
	if p.peek().is("timeout") {
		_, ok := p.timeout(from)
		return ok
	}
	return true
}

// failedURL reads the test of a URL.
func (p *parser) failedURL(from int) bool {
	p.next()
	if !p.need(from, "a URL that begins with http://", address) {
		return false
	}
	if p.accept("content") {
		if !p.accept("=", "!=") {
			return p.expected(from, `"==" or "!="`)
		}
		t, ok := p.take(str)
		if !ok {
			return p.expected(from, "a regular expression in quotes")
		}
		if why := badRegexp(t.text); why != "" {
			return p.fail(from, "the regular expression is not valid: %s", why)
		}
	}
	return p.netTimeout(from)
}

// connection reads the test of a port or a socket.
func (p *parser) connection(from int, c *condition) bool {
	to := Connection{Timeout: defaultConnectTimeout}
	host := "localhost"
	if p.accept("unixsocket") {
		t, ok := p.take(path)
		if !ok {
			return p.expected(from, "an absolute path of a socket")
		}
		to.Network, to.Address = "unix", t.text
	} else {
		if p.accept("host") {
			t, ok := p.take(str)
			if !ok {
				return p.expected(from, "a name or address")
			}
			host = t.text
		}
		if !p.accept("port") {
			return p.expected(from, "a port")
		}
		n, ok := p.take(number)
		if !ok {
			return p.expected(from, "the number of a port")
		}
		to.Network, to.Address = "tcp", net.JoinHostPort(host, strconv.Itoa(n.number))
		if n.number < 1 || n.number > 65535 {
			c.note = fmt.Sprintf("there is no port %d", n.number)
		}
	}
	stream, ok := p.transport(from)
	if !ok {
		return false
	}
	spoken, ok := p.protocol(from, &to)
	if !ok {
		return false
	}
	if p.peek().is("timeout") {
		n, ok := p.timeout(from)
		if !ok {
			return false
		}
		to.Timeout = time.Duration(min(max(n, 1), 1_000_000)) * time.Second
	}
	if p.check().Kind != KindProcess || !stream || c.note != "" {
		return true
	}
	c.why, c.Kind, c.Connect = "", RuleConnection, to
	switch {
	case spoken:
		c.why = "condition not supported because of send or expect"
	case to.Protocol != "" && to.Protocol != "http" && to.Protocol != "default":
		c.note = "only the connection is tried, not the protocol " + to.Protocol
	}
	return true
}

// transport reads the type of a connection, and reports whether it is TCP.
func (p *parser) transport(from int) (stream, ok bool) {
	if !p.accept("type") {
		return true, true
	}
	switch {
	case p.accept("tcp"):
		return true, true
	case p.accept("udp"):
		return false, true
	case p.accept("tcpssl"):
		return false, p.fail(from, "monit in stemcells has no TLS")
	}
	return false, p.expected(from, "tcp or udp")
}

// protocol reads what is spoken on a connection; spoken: "send" or "expect".
func (p *parser) protocol(from int, to *Connection) (spoken, ok bool) {
	for p.peek().is("send", "expect") {
		expect := p.next().is("expect")
		t, ok := p.take(str)
		if !ok {
			return true, p.expected(from, "a text in quotes that does not begin with /")
		}
		if why := badRegexp(t.text); expect && why != "" {
			return true, p.fail(from, "the regular expression is not valid: %s", why)
		}
		spoken = true
	}
	if spoken || !p.accept("protocol") {
		return spoken, true
	}
	t := p.peek()
	to.Protocol = t.text
	switch {
	case p.accept("default", "dns", "dwp", "ftp", "imap", "clamav", "ldap2", "ldap3", "mysql", "nntp", "ntp3", "postfix-policy",
		"pop", "smtp", "ssh", "rdate", "rsync", "tns", "pgsql", "lmtp", "gps", "memcache"):
		return false, true
	case p.accept("http"):
		return false, p.request(from, to)
	case p.accept("sip"):
		if p.accept("target") && !p.need(from, "a target", mail, str) {
			return false, false
		}
		return false, !p.accept("maxforward") || p.need(from, "a number", number)
	case p.accept("radius"):
		if !p.accept("secret") {
			return false, p.expected(from, "the secret")
		}
		return false, p.need(from, "the secret", str)
	case p.accept("apache-status"):
		return false, p.apache(from)
	}
	return false, p.expected(from, "a protocol")
}

// request reads the request of a test with HTTP, which may be missing.
func (p *parser) request(from int, to *Connection) bool {
	if !p.accept("request") {
		return true
	}
	t, ok := p.take(path)
	if !ok {
		return p.expected(from, "a path that begins with /")
	}
	to.Request = t.text
	if p.peek().is("checksum") {
		p.next()
		sum, ok := p.take(str)
		if !ok {
			return p.expected(from, "a checksum")
		}
		if n := len(sum.text); n != 32 && n != 40 {
			return p.fail(from, "the checksum must have 32 digits for MD5, or 40 for SHA1")
		}
	}
	return !p.accept("hostheader") || p.need(from, "a name", str)
}

// apache reads the limits of a test of the status of Apache.
func (p *parser) apache(from int) bool {
	for {
		if !p.accept("loglimit", "closelimit", "dnslimit", "keepalivelimit", "replylimit", "requestlimit", "startlimit", "waitlimit", "gracefullimit", "cleanuplimit") {
			return p.expected(from, "a limit")
		}
		p.operator()
		if !p.need(from, "a number", number) {
			return false
		}
		if !p.accept("percent") {
			return p.expected(from, `"%"`)
		}
		if !p.accept("or") {
			return true
		}
	}
}
