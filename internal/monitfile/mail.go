package monitfile

// alert reads the rest of an alert or noalert statement.
func (p *parser) alert(from int, noalert bool) bool {
	if _, ok := p.take(mail); !ok {
		return p.expected(from, "a mail address")
	}
	if noalert {
		return true
	}
	not := p.accept("not")
	if p.brace('{') {
		if !p.events(from) {
			return false
		}
	} else if not {
		return p.expected(from, `"{" and events`)
	}
	if p.accept("mail-format") && !p.mailFormat(from) {
		return false
	}
	if p.accept("reminder") {
		if _, ok := p.take(number); !ok {
			return p.expected(from, "a number of cycles")
		}
		p.accept("cycle")
	}
	return true
}

// brace takes the next token if it is the character.
func (p *parser) brace(c byte) bool {
	if t := p.peek(); t.kind == char && t.text == string(rune(c)) {
		p.at++
		return true
	}
	return false
}

// events reads the events of an alert up to the closing brace.
func (p *parser) events(from int) bool {
	for n := 0; ; n++ {
		if n > 0 && p.brace('}') {
			return true
		}
		if !p.accept("action", "checksum", "connection", "content", "data", "exec", "fsflag", "gid", "icmp", "instance", "invalid",
			"nonexist", "permission", "pid", "ppid", "resource", "size", "timeout", "timestamp", "uid") {
			return p.expected(from, "an event")
		}
	}
}

// mailFormat reads the parts of a mail in braces.
func (p *parser) mailFormat(from int) bool {
	if !p.brace('{') {
		return p.expected(from, `"{"`)
	}
	for n := 0; ; n++ {
		if n > 0 && p.brace('}') {
			return true
		}
		if _, ok := p.take(mailPart); !ok {
			return p.expected(from, "from:, reply-to:, subject: or message:")
		}
	}
}
