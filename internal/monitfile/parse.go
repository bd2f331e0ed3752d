package monitfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultTimeout is how long monit waits for a start or stop program without "with timeout".
	DefaultTimeout = 30 * time.Second
	maxTimeout     = 1_000_000_000 // seconds
	maxArguments   = 63            // monit accepts more, and overwrites the first ones
	maxCite        = 200           // the largest size of a statement in a message, in bytes
	maxMistakes    = 50            // more would only repeat the first ones
	maxSize        = 8 << 20
)

// whyComment is the reason for refusing a comment that monit does not see as one.
const whyComment = "the last line is a comment without an end of line, which monit reads as words: add an end of line"

// Parse reads a control file; name is its name in messages. If monit refuses the file, the
// error is a Mistakes. Parse always returns the checks that could be read. What concerns
// several files is not checked: see Conflicts.
func Parse(name string, text []byte) ([]Check, error) {
	if len(text) > maxSize {
		return nil, Mistakes{{File: name, Line: 1, What: fmt.Sprintf("the file is larger than the limit of %d MiB", maxSize>>20)}}
	}
	l := lex(name, string(text))
	p := &parser{name: name, text: l.text, toks: l.toks, errs: l.errs}
	for !p.end() && len(p.errs) < maxMistakes {
		p.statement()
	}
	p.close()
	for _, st := range l.includes {
		st.Text, st.Why, st.Doubtful = "include "+st.Text, "other files are not read", true
		p.other(st)
	}
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b *Mistake) int { return cmp.Compare(a.Line, b.Line) })
		return p.checks, Mistakes(p.errs)
	}
	for _, st := range l.notes {
		p.other(st)
	}
	return p.checks, nil
}

// A parser reads one statement after the other; at is the next token.
type parser struct {
	name   string
	text   string
	toks   []token
	at     int
	open   bool // the last check can have further statements
	tested bool // it is of a host, and has a test of a port or by ICMP
	checks []Check
	errs   []*Mistake
}

func (p *parser) end() bool { return p.at >= len(p.toks) }

// peek returns the next token; at the end, one of kind none.
func (p *parser) peek() token { return p.ahead(0) }

// ahead returns the token n places after the next one.
func (p *parser) ahead(n int) token {
	if p.at+n >= len(p.toks) {
		return token{line: p.lastLine()}
	}
	return p.toks[p.at+n]
}

func (p *parser) next() token {
	t := p.peek()
	p.at++
	return t
}

// accept takes the next token if it is one of the keywords.
func (p *parser) accept(words ...string) bool {
	if p.peek().is(words...) {
		p.at++
		return true
	}
	return false
}

// take takes the next token if it is of one of the kinds.
func (p *parser) take(kinds ...kind) (token, bool) {
	t := p.peek()
	if slices.Contains(kinds, t.kind) {
		p.at++
		return t, true
	}
	return t, false
}

func (p *parser) lastLine() int {
	if len(p.toks) == 0 {
		return 1
	}
	return p.toks[len(p.toks)-1].line
}

// cite returns the text of the statement from a token up to the present one.
func (p *parser) cite(from int, why string) Statement {
	first, last := p.toks[from], p.toks[max(from, min(p.at, len(p.toks))-1)]
	part := p.text[first.start:last.end]
	if len(part) > 4*maxCite {
		part = part[:4*maxCite]
	}
	text := strings.Join(strings.Fields(part), " ")
	if len(text) > maxCite {
		text = strings.ToValidUTF8(text[:maxCite], "") + "…"
	}
	return Statement{File: p.name, Line: first.line, Text: text, Why: why}
}

// fail reports a mistake in the statement that begins at from. It returns false.
func (p *parser) fail(from int, format string, args ...any) bool {
	st := p.cite(from, "")
	p.errs = append(p.errs, &Mistake{File: st.File, Line: st.Line, What: fmt.Sprintf("cannot read %q: %s", st.Text, fmt.Sprintf(format, args...))})
	return false
}

// expected reports that the next token is not what monit expects there. It returns false.
func (p *parser) expected(from int, what string) bool {
	if p.end() {
		return p.fail(from, "expected %s, not the end of the file", what)
	}
	t := p.peek()
	found := firstLine(p.text[t.start:t.end])
	if strings.HasPrefix(found, "#") && strings.IndexByte(p.text[t.start:], '\n') < 0 {
		return p.fail(from, whyComment)
	}
	return p.fail(from, "expected %s, not %q", what, found)
}

// check returns the current check; nil before the first.
func (p *parser) check() *Check {
	if !p.open {
		return nil
	}
	return &p.checks[len(p.checks)-1]
}

// close ends the current check.
func (p *parser) close() {
	if c := p.check(); c != nil && c.Kind == KindHost && !p.tested {
		p.errs = append(p.errs, &Mistake{File: c.File, Line: c.Line, What: fmt.Sprintf("the check of the host %q is incomplete: test a port or use icmp", c.Name)})
	}
	p.open, p.tested = false, false
}

// unsupported reports the statement that begins at from.
func (p *parser) unsupported(from int, why string) {
	st := p.cite(from, why)
	c := p.check()
	if c == nil {
		p.other(st)
		return
	}
	// An unsupervised check is reported once, as a whole.
	if c.Kind == KindProcess || len(c.Unsupported) == 0 {
		c.Unsupported = append(c.Unsupported, st)
	}
}

// other reports a statement outside of checks. It is inserted before the current check,
// so that this stays current.
func (p *parser) other(st Statement) {
	c := Check{Kind: KindOther, File: st.File, Line: st.Line, Unsupported: []Statement{st}}
	if n := len(p.checks); p.open {
		p.checks = append(p.checks[:n-1:n-1], c, p.checks[n-1])
		return
	}
	p.checks = append(p.checks, c)
}

// starts reports whether the token begins a statement, as far as that is known after a
// mistake.
func (t token) starts() bool {
	if t.kind != word {
		return false
	}
	if strings.HasPrefix(t.text, "check ") {
		return true
	}
	return t.first && t.is("set", "if", "start", "stop", "group", "depends", "mode", "every", "alert", "noalert", "ignore")
}

// skip ignores the rest of a statement with a mistake.
func (p *parser) skip() {
	for !p.end() && !p.peek().starts() {
		p.at++
	}
}

// statement reads a check, a set statement, or a statement of the current check.
func (p *parser) statement() {
	from := p.at
	t := p.peek()
	ok := true
	switch {
	case t.kind == word && strings.HasPrefix(t.text, "check "):
		p.close()
		ok = p.checkHead(from)
	case t.is("set"):
		p.close()
		p.next()
		if ok = p.set(from); ok {
			p.other(p.cite(from, "statements about monit itself have no effect here"))
		}
	case p.check() == nil:
		p.next()
		p.skip()
		ok = p.stray(from)
	default:
		p.next()
		if !p.allowed(t) {
			p.skip()
			ok = p.fail(from, "a check of a %s cannot have this statement", p.check().Kind)
			break
		}
		ok = p.option(from, t)
	}
	if !ok {
		p.skip()
	}
}

// stray reports a statement that is not in a check.
func (p *parser) stray(from int) bool {
	t := p.toks[from]
	switch {
	case len(p.errs) > 0 && t.starts():
		return false // it belongs to a check that could not be read
	case t.kind == word:
		return p.fail(from, "no check is before it, such as: check process NAME with pidfile PATH")
	}
	return p.unknown(from, t)
}

// unknown reports a statement that begins with the token.
func (p *parser) unknown(from int, t token) bool {
	if p.text[t.start] == '#' {
		return p.fail(from, whyComment)
	}
	return p.fail(from, "monit does not know %q", firstLine(p.text[t.start:t.end]))
}

// allowed reports whether a check of this kind can have a statement that begins with the
// token. It only looks at what belongs to few kinds.
func (p *parser) allowed(t token) bool {
	switch kind := p.check().Kind; {
	case t.is("start", "stop"):
		return kind != KindStatus
	case t.is("mode"):
		return kind != KindStatus && kind != KindSystem
	case t.is("ignore"):
		return kind == KindFile
	}
	return true
}

// option reads the rest of a statement of the current check.
func (p *parser) option(from int, t token) bool {
	switch {
	case t.is("start"):
		return p.program(from, &p.check().Start)
	case t.is("stop"):
		return p.program(from, &p.check().Stop)
	case t.is("group"):
		return p.group(from)
	case t.is("depends"):
		return p.depends(from)
	case t.is("mode"):
		return p.mode(from)
	case t.is("every"):
		return p.every(from)
	case t.is("if"):
		return p.rule(from)
	case t.is("alert", "noalert"):
		if !p.alert(from, t.is("noalert")) {
			return false
		}
		p.unsupported(from, "no mail is sent")
		return true
	case t.is("ignore"):
		if !p.matching(from) {
			return false
		}
		p.unsupported(from, "only processes are supervised")
		return true
	case t.is("timeout"):
		return p.fail(from, `"with timeout" belongs to a start or stop program, after "as uid" and "and gid"`)
	case t.is("uid", "gid"):
		return p.fail(from, `"as uid" and "and gid" belong to a start or stop program, before "with timeout"`)
	}
	text := firstLine(p.text[t.start:t.end])
	p.skip()
	if t.kind == word {
		return p.fail(from, "%q does not begin a statement", text)
	}
	return p.unknown(from, t)
}

// timeout reads "timeout N seconds".
func (p *parser) timeout(from int) (int, bool) {
	p.next()
	n, ok := p.take(number)
	if !ok {
		return 0, p.expected(from, "a number of seconds after timeout")
	}
	if !p.accept("second") {
		return 0, p.expected(from, fmt.Sprintf(`"seconds" after "timeout %d"`, n.number))
	}
	return n.number, true
}

func (p *parser) group(from int) bool {
	t, ok := p.take(group)
	if !ok {
		return p.expected(from, "the name of a group")
	}
	c := p.check()
	c.Groups = append(c.Groups, t.text)
	return true
}

func (p *parser) depends(from int) bool {
	t, ok := p.take(service)
	if !ok {
		return p.expected(from, "the name of a service in the same line")
	}
	c := p.check()
	for ; ok; t, ok = p.take(service) {
		c.Depends = append(c.Depends, t.text)
	}
	return true
}

func (p *parser) mode(from int) bool {
	c := p.check()
	switch {
	case p.accept("active"):
		c.Mode = ModeActive
	case p.accept("passive"):
		c.Mode = ModePassive
	case p.accept("manual"):
		c.Mode = ModeManual
	default:
		return p.expected(from, "active, passive or manual")
	}
	return true
}

func (p *parser) every(from int) bool {
	n, ok := p.take(number)
	if !ok {
		return p.expected(from, "a number of cycles")
	}
	if !p.accept("cycle") {
		return p.expected(from, `"cycles" after "every `+strconv.Itoa(n.number)+`"`)
	}
	if n.number <= 1 {
		return p.fail(from, "the number of cycles must be at least 2")
	}
	p.check().Every = min(n.number, 1_000_000)
	return true
}
