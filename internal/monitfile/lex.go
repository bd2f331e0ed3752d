package monitfile

import (
	"fmt"
	"strconv"
	"strings"
)

// A kind is the class of a token.
type kind uint8

// The kinds of tokens. monit chooses the kind of a text from its first letters and its
// quotes: /a is a path, 7 a number, and 7a a string.
const (
	none     kind = iota // the end of the file
	word                 // a keyword, in its usual spelling
	number               // digits
	real                 // digits, a point, digits
	str                  // any other word, and a quoted text
	path                 // a word or quoted text that begins with a slash
	mail                 // a@b
	mailPart             // from:, reply-to:, subject: or message: with its text
	service              // the name after check or depends
	group                // the name after group
	address              // a URL
	char                 // a character that belongs to nothing else
)

// A token is a part of a control file with a meaning.
type token struct {
	kind       kind
	text       string // of a keyword its usual spelling, of a quoted text what is in it
	number     int    // of a number; as in monit, 32 bits
	line       int
	start, end int  // place in the file
	first      bool // it is the first token of its line
}

// is reports whether t is one of the keywords.
func (t token) is(words ...string) bool {
	if t.kind != word {
		return false
	}
	for _, w := range words {
		if t.text == w {
			return true
		}
	}
	return false
}

// A lexMode is what the lexer expects: after some keywords, monit reads names, arguments and
// addresses by rules of their own.
type lexMode uint8

const (
	plainMode lexMode = iota
	serviceMode
	dependsMode
	argumentMode
	groupMode
	urlMode
	includeMode
)

// lexer splits a control file into tokens as the lexer of monit 5.2.5 does: of all that
// can be read at a place, the longest counts.
type lexer struct {
	name string
	text string
	at   int
	line int
	mode lexMode
	nl   bool // there is no token on this line yet
	from int  // in the modes for URLs: where the URL starts

	hostname bool   // the URL has a host
	scheme   string // of the URL
	toks     []token
	includes []Statement
	notes    []Statement // what monit accepts, and hardly means what was wanted
	errs     []*Mistake
}

// lex splits text into tokens.
func lex(name, text string) *lexer {
	l := &lexer{name: name, text: text, line: 1, nl: true}
	if i := strings.IndexByte(text, 0); i >= 0 {
		l.line += strings.Count(text[:i], "\n")
		l.fail("the file contains a zero byte, at which monit ends to read all files")
		return l
	}
	for l.at < len(l.text) {
		switch l.mode {
		case plainMode:
			l.plain()
		case serviceMode, groupMode:
			l.named()
		case dependsMode:
			l.depends()
		case argumentMode:
			l.argument()
		case urlMode:
			l.url()
		case includeMode:
			l.include()
		}
	}
	if l.mode == argumentMode {
		l.note("the quote of the last program is not closed: the rest of the file is its arguments")
	}
	return l
}

// note remembers something that monit accepts and that is hardly meant.
func (l *lexer) note(why string) {
	text := "…"
	if l.at < len(l.text) {
		text = firstLine(l.text[l.at:])
	} else if len(l.toks) > 0 {
		text = firstLine(l.toks[len(l.toks)-1].text)
	}
	l.notes = append(l.notes, Statement{File: l.name, Line: min(l.line, strings.Count(l.text, "\n")+1), Text: text, Why: why, Doubtful: true})
}

// fail reports a mistake in the present line.
func (l *lexer) fail(format string, args ...any) {
	if len(l.errs) >= maxMistakes {
		return
	}
	l.errs = append(l.errs, &Mistake{File: l.name, Line: l.line, What: fmt.Sprintf(format, args...)})
}

// add appends a token of n bytes, and goes on after it.
func (l *lexer) add(k kind, text string, n int) {
	t := token{kind: k, text: text, line: l.line, start: l.at, end: l.at + n, first: l.nl}
	if k == number {
		t.number = atoi(text)
	}
	l.toks = append(l.toks, t)
	l.nl = false
	l.skip(n)
}

// skip goes on after n bytes.
func (l *lexer) skip(n int) {
	if lines := strings.Count(l.text[l.at:l.at+n], "\n"); lines > 0 {
		l.line += lines
		l.nl = true
	}
	l.at += n
}

// atoi reads digits as C's atoi does.
func atoi(digits string) int {
	n, _ := strconv.ParseInt(digits, 10, 64) // out of range: the largest number, as in C
	return int(int32(n))                     // #nosec G115 -- monit keeps 32 bits, too
}

// plain reads a token outside of names, arguments and addresses.
func (l *lexer) plain() {
	rest := l.text[l.at:]
	if n := run(rest, isWide); n > 0 {
		l.skip(n)
		return
	}
	switch c := rest[0]; {
	case c == '\n':
		l.skip(1)
		return
	case c == '\\' && strings.HasPrefix(rest, "\\\n"):
		l.skip(2)
		return
	case c == '#':
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			l.skip(n + 1)
			return
		}
		l.note("the last line is a comment without an end of line, which monit reads as words")
	case c == '"' || c == '\'':
		l.quoted()
		return
	case c == '%':
		l.add(word, "percent", 1)
		return
	}
	l.word()
}

// quoted reads a quoted text.
func (l *lexer) quoted() {
	quote := l.text[l.at]
	n := strings.IndexByte(l.text[l.at+1:], quote)
	if n < 0 {
		l.fail("cannot find the end of the text that starts with %s: close the quote", firstLine(l.text[l.at:]))
		l.skip(1)
		return
	}
	body := l.text[l.at+1 : l.at+1+n]
	k := str
	if strings.HasPrefix(body, "/") && !strings.Contains(body, "\n") {
		k = path
	}
	l.add(k, unescape(body), n+2)
}

// word reads a word, and what monit reads together with some words.
func (l *lexer) word() {
	rest := l.text[l.at:]
	n := run(rest, isStr)
	if n == 0 {
		if strings.HasPrefix(rest, "!=") {
			l.add(word, "!=", 2)
			return
		}
		l.add(char, rest[:1], 1)
		return
	}
	text := rest[:n]
	lower := lowered(text)
	if l.compound(lower, rest, n) {
		return
	}
	switch kw, known := keyword(lower); {
	case known && kw == "": // monit ignores it
		l.skip(n)
	case known && kw == "include":
		l.skip(n)
		l.mode = includeMode
	case known:
		l.add(word, kw, n)
	case run(text, isDigit) == n:
		l.add(number, text, n)
	case isReal(text):
		l.add(real, text, n)
	case text[0] == '/':
		l.add(path, text, n)
	default:
		l.add(str, text, n)
	}
}

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

// argument reads an argument in a quoted program.
func (l *lexer) argument() {
	rest := l.text[l.at:]
	space := run(rest, isSpace)
	n := run(rest, func(c byte) bool { return c != ' ' && c != '\t' && c != '\n' && c != '"' })
	quoted := 0
	if rest[0] == '\'' {
		quoted = strings.IndexByte(rest[1:], '\'') + 2
	}
	switch {
	case space > 0 && space >= n:
		l.skip(space)
	case rest[0] == '\n':
		l.skip(1)
	case rest[0] == '"':
		l.skip(1)
		l.mode = plainMode
	case quoted >= 2 && quoted >= n:
		l.add(str, unescape(rest[1:quoted-1]), quoted)
	case rest[0] == '\'' && n == 1:
		l.fail("cannot find the end of the text that starts with %s: close the quote", firstLine(rest))
		l.skip(1)
	default:
		l.add(str, rest[:n], n)
	}
}

// url reads a part of a URL, and its end.
func (l *lexer) url() {
	rest := l.text[l.at:]
	c := rest[0]
	if c == '\n' || isSpace(c) {
		switch {
		case l.scheme != "http" && l.scheme != "https":
			l.fail("cannot use the protocol %s in a URL: monit knows http", l.scheme)
		case l.scheme == "https":
			l.fail("cannot use https: monit in stemcells has no TLS")
		case !l.hostname:
			l.fail("the URL has no host")
		}
		t := token{kind: address, text: l.text[l.from:l.at], line: l.line, start: l.from, end: l.at, first: false}
		l.toks = append(l.toks, t)
		l.skip(1)
		l.mode = plainMode
		return
	}
	until := func(ends string) int {
		return run(rest, func(c byte) bool { return strings.IndexByte(ends, c) < 0 })
	}
	login := 0 // user:password@
	if user := until(":@ "); user > 0 && user < len(rest) && rest[user] == ':' {
		pass := run(rest[user+1:], func(c byte) bool { return c != '@' && c != ':' && c != ' ' })
		if end := user + 1 + pass; pass > 0 && end < len(rest) && rest[end] == '@' {
			login = user
		}
	}
	host := until("/?:#\r\n ")
	switch {
	case login > 0 && login >= host:
		l.skip(login)
	case c == ':':
		pass := run(rest[1:], func(c byte) bool { return c != '@' && c != ' ' })
		if 1+pass < len(rest) && pass > 0 && rest[1+pass] == '@' {
			l.skip(pass + 2)
			return
		}
		if port := run(rest[1:], isDigit); port > 0 {
			l.skip(1 + port)
			return
		}
		l.add(char, ":", 1)
	case c == '/':
		l.skip(until("?#\r\n "))
	case c == '?':
		l.skip(until("#\r\n "))
	case c == '#':
		l.skip(until("\r\n "))
	default:
		l.hostname = true
		l.skip(host)
	}
}

// include reads the name of a file after include.
func (l *lexer) include() {
	rest := l.text[l.at:]
	if c := rest[0]; c == '\r' || c == '\n' || isBlank(c) {
		l.skip(1)
		return
	}
	n := run(rest, func(c byte) bool { return c != ' ' && c != '\t' && c != '\r' && c != '\n' })
	name := rest[:n]
	if c := rest[0]; c == '"' || c == '\'' {
		if m := run(rest[1:], func(b byte) bool { return b != c && b != '\r' && b != '\n' }); m > 0 && m+1 < len(rest) && rest[m+1] == c && m+2 >= n {
			name, n = rest[1:m+1], m+2
		}
	}
	l.includes = append(l.includes, Statement{File: l.name, Line: l.line, Text: name})
	l.nl = false
	l.skip(n)
	l.mode = plainMode
}

// run returns how many bytes at the beginning of s are of the class.
func run(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// isWide reports whether c only separates tokens.
func isWide(c byte) bool {
	return isSpace(c) || c == ';' || c == ',' || c == '(' || c == ')'
}

// isStr reports whether c can be in a word.
func isStr(c byte) bool {
	if c <= '!' {
		return false
	}
	switch c {
	case '@', ':', '{', '}', '"', '\'', ';', '(', ')', ',', '%':
		return false
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isReal(s string) bool {
	n := run(s, isDigit)
	return n > 0 && n+1 < len(s) && s[n] == '.' && run(s[n+1:], isDigit) == len(s)-n-1
}

// lowered returns s with the letters A to Z in lower case; monit knows no others.
func lowered(s string) string {
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	if run(s, func(c byte) bool { return !upper(c) }) == len(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if upper(c) {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && lowered(s[:len(prefix)]) == prefix
}

// unescape replaces the escapes of a quoted text as monit does.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch next := s[i+1]; {
		case next == 'n':
			b.WriteByte('\n')
			i++
		case next == 't':
			b.WriteByte('\t')
			i++
		case next == 'r':
			b.WriteByte('\r')
			i++
		case next == ' ' || next == '\\':
			b.WriteByte(next)
			i++
		case next == '0' && i+4 < len(s) && s[i+2] == 'x':
			n, err := strconv.ParseUint(s[i+3:i+5], 16, 8)
			if err != nil || n == 0 {
				b.WriteByte('\\') // only a test of a port can send a zero byte
				continue
			}
			b.WriteByte(byte(n))
			i += 4
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strings.TrimSpace(s)
}
