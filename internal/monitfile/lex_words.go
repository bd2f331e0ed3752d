package monitfile

import (
	"strings"
)

// compound reads what is longer than the word of n bytes at the beginning of rest; lower
// is the word in lower case.
func (l *lexer) compound(lower, rest string, n int) bool {
	after := rest[n:]
	switch {
	case strings.HasPrefix(after, "://") && run(lower, isAlnum) == n:
		l.scheme, l.hostname, l.from, l.mode = lower, false, l.at, urlMode
		l.skip(n + 3)
		return true
	case strings.HasPrefix(after, "@") && run(after[1:], isStr) > 0:
		l.add(mail, rest[:n+1+run(after[1:], isStr)], n+1+run(after[1:], isStr))
		return true
	case strings.HasPrefix(after, ":"):
		if m := mailPartLength(lower, after[1:]); m >= 0 {
			l.add(mailPart, lower, n+1+m)
			return true
		}
	case strings.HasPrefix(lower, "start"), strings.HasPrefix(lower, "stop"), strings.HasPrefix(lower, "exec"):
		if w, m := commandLength(rest); m > 0 {
			l.add(word, w, m)
			l.mode = argumentMode
			return true
		}
	}
	blanks := run(after, isBlank)
	switch {
	case strings.HasPrefix(lower, "cpu") || lower == "loadavg":
		if w, m := measureLength(lower, rest); m > 0 {
			l.add(word, w, m)
			return true
		}
	case blanks == 0:
	case lower == "check":
		w, m := checked(after[blanks:])
		l.add(word, w, n+blanks+m)
		l.mode = serviceMode
		return true
	case lower == "depend", lower == "depends":
		m := n + blanks
		if hasPrefixFold(rest[m:], "on") {
			m += 2
			m += run(rest[m:], isBlank)
		}
		l.add(word, "depends", m)
		l.mode = dependsMode
		return true
	case lower == "group":
		l.add(word, "group", n+blanks)
		l.mode = groupMode
		return true
	}
	return false
}

// mailPartLength returns the length of the text after "from:" and other parts of a mail;
// -1: lower is none of them.
func mailPartLength(lower, after string) int {
	switch lower {
	case "from", "reply-to":
		n := run(after, isBlank)
		name := run(after[n:], isStr)
		if at := n + name; name > 0 && at < len(after) && after[at] == '@' {
			if host := run(after[at+1:], isStr); host > 0 {
				return at + 1 + host
			}
		}
	case "subject":
		return run(after, func(c byte) bool { return c != '}' && c != '\n' })
	case "message":
		return run(after, func(c byte) bool { return c != '}' })
	}
	return -1
}

// commandLength returns the length of start, stop or exec with the quote before its
// program; 0: there is none.
func commandLength(rest string) (string, int) {
	for _, w := range []string{"start", "stop", "execute", "exec"} {
		if !hasPrefixFold(rest, w) {
			continue
		}
		n := len(w)
		n += run(rest[n:], isSpace)
		kw := w
		if w[0] == 'e' {
			kw = "exec"
		} else {
			if hasPrefixFold(rest[n:], "program") {
				n += len("program")
				n += run(rest[n:], isSpace)
			}
			if strings.HasPrefix(rest[n:], "=") {
				blanks := run(rest[n+1:], isSpace)
				if blanks == 0 {
					return "", 0
				}
				n += 1 + blanks
			}
		}
		if strings.HasPrefix(rest[n:], `"`) {
			return kw, n + 1
		}
		return "", 0
	}
	return "", 0
}

// measureLength returns the length of cpu(user) or loadavg(5min) and the like; 0: it is
// none of them.
func measureLength(lower, rest string) (string, int) {
	isGap := func(c byte) bool { return c == ' ' }
	n := len("cpu")
	if lower == "loadavg" {
		n = len("loadavg")
	}
	n += run(rest[n:], isGap)
	bare := n
	if lower != "loadavg" {
		for hasPrefixFold(rest[n:], "usage") {
			n += len("usage")
		}
		n += run(rest[n:], isGap)
	}
	if strings.HasPrefix(rest[n:], "(") {
		n++
		n += run(rest[n:], isGap)
		inner := lowered(rest[n : n+run(rest[n:], isAlnum)])
		n += len(inner)
		gap := run(rest[n:], isGap)
		if lower == "loadavg" && gap > 0 && (inner == "1" || inner == "5" || inner == "15") {
			n += gap
			unit := lowered(rest[n : n+run(rest[n:], isAlnum)])
			inner += unit
			n += len(unit)
			gap = run(rest[n:], isGap)
		}
		n += gap
		if strings.HasPrefix(rest[n:], ")") {
			if w := measure(lower == "loadavg", inner); w != "" {
				return w, n + 1
			}
		}
	}
	if lower == "loadavg" {
		return "loadavg1", bare
	}
	return "", 0
}

// measure returns the keyword for the text in parentheses after cpu or loadavg; empty:
// there is none.
func measure(load bool, inner string) string {
	if load {
		switch inner {
		case "1", "1m", "1min":
			return "loadavg1"
		case "5", "5m", "5min":
			return "loadavg5"
		case "15", "15m", "15min":
			return "loadavg15"
		}
		return ""
	}
	switch inner {
	case "", "us", "usr", "user":
		return "cpuuser"
	case "sy", "sys", "system":
		return "cpusystem"
	case "wa", "wait":
		return "cpuwait"
	}
	return ""
}

// checked returns the keyword for a check of what after begins with, and its length
// there: without one, the check is of a process.
func checked(after string) (string, int) {
	for _, w := range []string{"filesystem", "device", "file", "directory", "host", "system", "fifo", "status"} {
		if hasPrefixFold(after, w) {
			if w == "device" {
				return "check filesystem", len(w)
			}
			return "check " + w, len(w)
		}
	}
	if n := len("process"); hasPrefixFold(after, "process") && len(after) > n && isBlank(after[n]) {
		return "check process", n + 1
	}
	return "check process", 0
}

// named reads the name after check or group.
func (l *lexer) named() {
	rest := l.text[l.at:]
	k := service
	if l.mode == groupMode {
		k = group
	} else if n := run(rest, isSpace); n > 0 {
		l.skip(n)
		return
	}
	n := run(rest, isStr)
	quoted := ""
	if c := rest[0]; c == '"' || c == '\'' {
		if m := run(rest[1:], isStr); m > 0 && m+1 < len(rest) && rest[m+1] == c {
			quoted = rest[1 : m+1]
		}
	}
	switch {
	case n > 0:
		l.add(k, rest[:n], n)
		l.mode = plainMode
	case quoted != "":
		l.add(k, unescape(quoted), len(quoted)+2)
		l.mode = plainMode
	case rest[0] == '\n':
		l.skip(1)
	case rest[0] == '"' || rest[0] == '\'':
		l.fail("the name %s is not valid: a name has no spaces, parentheses, commas, colons or quotes", firstLine(rest))
		l.mode = plainMode
		if n := strings.IndexByte(rest[1:], rest[0]); n >= 0 {
			l.add(k, rest[1:n+1], n+2)
			return
		}
		l.skip(len(rest))
	default:
		l.add(char, rest[:1], 1)
	}
}

// depends reads the names after depends on: they end with white space that no comma
// follows.
func (l *lexer) depends() {
	rest := l.text[l.at:]
	wide := run(rest, isWide)
	next := 0 // length of an end of line with the blanks around it
	if wide < len(rest) && rest[wide] == '\n' {
		next = wide + 1
		next += run(rest[next:], isWide)
	}
	name := run(rest, isStr)
	last := run(rest, func(c byte) bool { return isSpace(c) || c == '\n' })
	switch {
	case last == 0:
	case last < len(rest) && rest[last] != ',':
		last++
	case last == 1:
		last = 0
	}
	switch {
	case wide > 0 && wide >= next && wide >= last:
		l.skip(wide)
	case next > 0 && next >= last:
		l.skip(next)
	case name > 0:
		l.add(service, rest[:name], name)
	case last > 0:
		l.skip(last - 1)
		l.mode = plainMode
	default:
		l.add(char, rest[:1], 1)
	}
}
