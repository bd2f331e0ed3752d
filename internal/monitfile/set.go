package monitfile

// set reads the rest of a set statement.
func (p *parser) set(from int) bool {
	t := p.next()
	switch {
	case t.is("alert"):
		return p.alert(from, false)
	case t.is("daemon"):
		return p.setDaemon(from)
	case t.is("init", "fips"):
		return true
	case t.is("logfile"):
		return p.setLog(from)
	case t.is("expectbuffer"):
		return p.need(from, "a number", number) && p.unit()
	case t.is("idfile", "statefile", "pidfile"):
		return p.need(from, "an absolute path", path)
	case t.is("eventqueue"):
		return p.setQueue(from)
	case t.is("mailserver"):
		return p.setMailServers(from)
	case t.is("mail-format"):
		return p.mailFormat(from)
	case t.is("mmonit"):
		return p.setMMonit(from)
	case t.is("httpd"):
		return p.setHTTPD(from)
	}
	p.at--
	return p.expected(from, "what to set")
}

// need takes the next token, which must be of one of the kinds.
func (p *parser) need(from int, what string, kinds ...kind) bool {
	if _, ok := p.take(kinds...); !ok {
		return p.expected(from, what)
	}
	return true
}

// unit reads the unit of a size, which may be missing.
func (p *parser) unit() bool {
	p.accept("byte", "kilobyte", "megabyte", "gigabyte")
	return true
}

func (p *parser) setDaemon(from int) bool {
	if !p.need(from, "a number of seconds", number) {
		return false
	}
	if p.accept("start") {
		if !p.accept("delay") {
			return p.expected(from, `"delay" and a number of seconds`)
		}
		return p.need(from, "a number of seconds", number)
	}
	return true
}

func (p *parser) setLog(from int) bool {
	if p.accept("syslog") {
		if !p.accept("facility") {
			return true
		}
		t, ok := p.take(str)
		if !ok {
			return p.expected(from, "a facility of syslog")
		}
		switch lowered(t.text) {
		case "log_local0", "log_local1", "log_local2", "log_local3", "log_local4", "log_local5", "log_local6", "log_local7", "log_daemon":
			return true
		}
		return p.fail(from, "syslog has no such facility")
	}
	return p.need(from, "an absolute path, or syslog", path)
}

func (p *parser) setQueue(from int) bool {
	based := p.accept("basedir")
	if based && !p.need(from, "an absolute path", path) {
		return false
	}
	if p.accept("slot") {
		return p.need(from, "a number", number)
	}
	if !based {
		return p.expected(from, "basedir or slots")
	}
	return true
}

func (p *parser) setMailServers(from int) bool {
	for n := 0; ; n++ {
		if _, ok := p.take(str); !ok {
			if n == 0 {
				return p.expected(from, "the name of a mail server")
			}
			break
		}
		if p.accept("port") && !p.need(from, "a port", number) ||
			p.accept("username") && !p.need(from, "a name", mail, str) ||
			p.accept("password") && !p.need(from, "a password", str) || !p.tls(from) {
			return false
		}
	}
	if p.peek().is("timeout") {
		if _, ok := p.timeout(from); !ok {
			return false
		}
	}
	return !p.accept("hostname") || p.need(from, "a name", str)
}

// tls reads the version of TLS and the sum of a certificate, which may be missing.
func (p *parser) tls(from int) bool {
	p.accept("sslv2", "sslv3", "tlsv1", "sslauto")
	return !p.accept("certmd5") || p.need(from, "the sum of a certificate", str)
}

func (p *parser) setMMonit(from int) bool {
	for n := 0; ; n++ {
		if _, ok := p.take(address); !ok {
			if n == 0 {
				return p.expected(from, "a URL")
			}
			return true
		}
		if p.peek().is("timeout") {
			if _, ok := p.timeout(from); !ok {
				return false
			}
		}
		if !p.tls(from) {
			return false
		}
		if p.accept("register") && !p.accept("credentials") {
			return p.expected(from, "credentials")
		}
	}
}

func (p *parser) setHTTPD(from int) bool {
	if !p.accept("port") {
		return p.expected(from, "a port")
	}
	if !p.need(from, "a port", number) {
		return false
	}
	for {
		switch {
		case p.accept("signature"):
			if !p.accept("enable", "disable") {
				return p.expected(from, "enable or disable")
			}
		case p.peek().is("enable", "disable") && p.ahead(1).is("signature"):
			p.at += 2
		case p.peek().is("ssl") && p.ahead(1).is("disable"), p.peek().is("disable") && p.ahead(1).is("ssl"):
			p.at += 2
			if !p.tlsOff(from) {
				return false
			}
		case p.accept("ssl"), p.peek().is("enable") && p.ahead(1).is("ssl"):
			return p.fail(from, "monit in stemcells has no TLS")
		case p.accept("address"):
			if !p.need(from, "an address", str) {
				return false
			}
		case p.accept("allow"):
			if !p.allow(from) {
				return false
			}
		default:
			return true
		}
	}
}

// tlsOff reads what may be after "ssl disable".
func (p *parser) tlsOff(from int) bool {
	for {
		switch {
		case p.accept("pemfile", "clientpemfile"):
			if !p.need(from, "an absolute path", path) {
				return false
			}
		case !p.accept("allowselfcertification"):
			return true
		}
	}
}

// allow reads who may use monit's web server.
func (p *parser) allow(from int) bool {
	switch {
	case p.brace('@'):
		if !p.need(from, "a group", str) {
			return false
		}
		p.accept("readonly")
	case p.accept("cleartext", "md5", "crypt"):
		if !p.need(from, "an absolute path", path) {
			return false
		}
		p.users()
	case p.peek().kind == path:
		p.next()
		p.users()
	default:
		if !p.need(from, "a user, a file or an address", str) {
			return false
		}
		if p.brace(':') {
			if !p.need(from, "a password", str) {
				return false
			}
			p.accept("readonly")
		}
	}
	return true
}

func (p *parser) users() {
	for {
		if _, ok := p.take(str); !ok {
			return
		}
	}
}
