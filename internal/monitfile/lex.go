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
