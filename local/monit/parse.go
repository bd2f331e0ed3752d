package monit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	maxCite        = 200 // the largest size of a statement in a message, in bytes
)

// Parse reads a control file; name is its name in messages. The error has all mistakes,
// each as "file:line: …". Parse always returns the checks that could be read.
func Parse(name string, text []byte) ([]Check, error) {
	toks, errs := lex(name, string(text))
	p := &parser{name: name, text: string(text), toks: toks, errs: errs}
	for !p.end() {
		p.statement()
	}
	return p.checks, errors.Join(p.errs...)
}

// A parser reads one statement after the other; at is the next token.
type parser struct {
	name   string
	text   string
	toks   []token
	at     int
	checks []Check
	errs   []error
}

func (p *parser) end() bool { return p.at >= len(p.toks) }

// peek returns the next token; at the end, an empty token.
func (p *parser) peek() token {
	if p.end() {
		return token{quote: '"', line: p.lastLine()}
	}
	return p.toks[p.at]
}

func (p *parser) next() token {
	t := p.peek()
	p.at++
	return t
}

// accept takes the next token if it is one of the words.
func (p *parser) accept(words ...string) bool {
	if p.peek().is(words...) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipNoise() {
	for !p.end() && p.peek().noise() {
		p.at++
	}
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
	text := strings.Join(strings.Fields(p.text[first.start:last.end]), " ")
	if len(text) > maxCite {
		text = strings.ToValidUTF8(text[:maxCite], "") + "…"
	}
	return Statement{File: p.name, Line: first.line, Text: text, Why: why}
}

func (p *parser) fail(from int, format string, args ...any) {
	st := p.cite(from, "")
	p.errs = append(p.errs, fmt.Errorf("%s:%d: cannot read %q: %s", st.File, st.Line, st.Text, fmt.Sprintf(format, args...)))
}

// check returns the current check; nil before the first.
func (p *parser) check() *Check {
	if len(p.checks) == 0 || p.checks[len(p.checks)-1].Kind == KindOther {
		return nil
	}
	return &p.checks[len(p.checks)-1]
}

// unsupported reports the statement that begins at from.
func (p *parser) unsupported(from int, why string) {
	st := p.cite(from, why)
	if c := p.check(); c != nil {
		// An unsupervised check is reported once, as a whole.
		if c.Kind == KindProcess || len(c.Unsupported) == 0 {
			c.Unsupported = append(c.Unsupported, st)
		}
		return
	}
	p.other(st)
}

// other reports a statement outside of checks. It is inserted before the current check,
// so that this stays current.
func (p *parser) other(st Statement) {
	c := Check{Kind: KindOther, File: st.File, Line: st.Line, Unsupported: []Statement{st}}
	if n := len(p.checks); n > 0 && p.checks[n-1].Kind != KindOther {
		p.checks = append(p.checks[:n-1:n-1], c, p.checks[n-1])
		return
	}
	p.checks = append(p.checks, c)
}

// starts reports whether the token begins a statement. Words that can also be arguments
// (start, stop, restart, alert) do so only at the beginning of a line.
func (t token) starts() bool {
	if t.is("check", "set", "include", "group", "depends", "depend", "mode", "if", "every", "noalert") {
		return true
	}
	return t.first && t.is("start", "stop", "restart", "alert", "ignore", "not")
}

// skip ignores the rest of a statement.
func (p *parser) skip() {
	for !p.end() && !p.peek().starts() {
		p.at++
	}
}

func (p *parser) statement() {
	from := p.at
	t := p.next()
	switch {
	case t.is("check"):
		p.checkHead(from)
	case t.is("set"):
		p.skipSet()
		p.other(p.cite(from, "statements about monit itself have no effect here"))
	case t.is("include"):
		p.next()
		p.other(p.cite(from, "other files are not read"))
	case t.noise():
		// After a word such as "with", the next word decides.
	case p.check() == nil:
		p.skip()
		p.unsupported(from, "unknown statement")
	case t.is("start"):
		p.program(from, &p.check().Start)
	case t.is("stop"):
		p.program(from, &p.check().Stop)
	case t.is("restart"):
		p.program(from, &p.check().Restart)
		p.unsupported(from, "a restart is a stop and a start")
	case t.is("group"):
		p.group(from)
	case t.is("depends", "depend"):
		p.depends(from)
	case t.is("mode"):
		p.mode(from)
	case t.is("every"):
		p.every(from)
	case t.is("if"):
		p.rule(from)
	case t.is("alert", "noalert"):
		p.skip()
		p.unsupported(from, "no mail is sent")
	case t.is("not") && p.peek().is("every"):
		p.next()
		p.skip()
		p.unsupported(from, "times of day are not supported")
	default:
		p.skip()
		p.unsupported(from, "unknown statement")
	}
}

// skipSet ignores a set statement. It may contain words that begin statements elsewhere
// ("set daemon 10 with start delay 5", "set alert").
func (p *parser) skipSet() {
	for !p.end() && !(p.peek().first && p.peek().starts()) && !p.peek().is("check", "include") {
		p.at++
	}
}

func (p *parser) checkHead(from int) {
	kinds := map[string]Kind{"process": KindProcess, "file": KindFile, "filesystem": KindFilesystem, "device": KindFilesystem,
		"directory": KindDirectory, "fifo": KindFifo, "host": KindHost, "system": KindSystem, "program": KindProgram}
	kind, ok := kinds[strings.ToLower(p.peek().text)]
	if !ok || p.peek().quote != 0 {
		p.skip()
		p.fail(from, "say what to check: process, file, …")
		return
	}
	p.next()
	if p.end() || p.peek().starts() && !p.peek().is("group", "set", "mode", "include") {
		p.fail(from, "the name is missing")
		return
	}
	name := p.next()
	c := Check{Kind: kind, Name: name.text, File: p.name, Line: p.toks[from].line, Mode: ModeActive}
	if c.Name == "" {
		p.fail(from, "the name is empty")
	}
	p.checks = append(p.checks, c)
	p.skipNoise()
	if kind != KindProcess {
		if p.accept("path", "address") && !p.end() {
			p.next()
		}
		p.unsupported(from, "only processes are supervised")
		return
	}
	p.pidFile(from)
}

func (p *parser) pidFile(from int) {
	c := p.check()
	switch {
	case p.accept("pidfile", "path"):
		if p.end() || p.peek().starts() {
			p.fail(from, "the path of the pid file is missing")
			return
		}
		c.PidFile = p.next().text
		if !strings.HasPrefix(c.PidFile, "/") {
			p.fail(from, "the path of the pid file must be absolute")
		}
	case p.accept("matching", "match"):
		if !p.end() {
			c.Matching = p.next().text
		}
		p.unsupported(from, "processes are only found by their pid files")
	default:
		p.fail(from, `expected "with pidfile" and a path`)
	}
}

// program reads the rest of a start, stop or restart statement.
func (p *parser) program(from int, into *Program) {
	prog := Program{Timeout: defaultTimeout}
	p.accept("program")
	p.accept("=")
	if p.end() || p.peek().starts() {
		p.fail(from, "the program is missing")
		return
	}
	if t := p.peek(); t.quote != 0 {
		p.next()
		var err error
		if prog.Argv, err = argv(t.text); err != nil {
			p.fail(from, "%v", err)
			return
		}
	} else {
		for line := t.line; !p.end() && p.peek().line == line && !p.peek().is("with", "as", "timeout", "uid", "gid", "group", "depends"); {
			prog.Argv = append(prog.Argv, p.next().text)
		}
	}
	if len(prog.Argv) == 0 || prog.Argv[0] == "" {
		p.fail(from, "the program is empty")
		return
	}
	as := p.owner(&prog)
	p.skipNoise()
	if p.accept("timeout") {
		d, ok := p.seconds()
		if !ok {
			p.fail(from, `expected "timeout N seconds"`)
			return
		}
		prog.Timeout = d
		as = p.owner(&prog) || as
	}
	if into.Argv != nil {
		p.fail(from, "given twice for %s", p.check().Name)
		return
	}
	*into = prog
	if as {
		p.unsupported(from, whyOwner)
	}
}

// owner reads "as uid x and gid y".
func (p *parser) owner(prog *Program) (found bool) {
	for {
		mark := p.at
		p.skipNoise()
		switch {
		case p.accept("uid") && !p.end():
			prog.UID = p.next().text
		case p.accept("gid") && !p.end():
			prog.GID = p.next().text
		default:
			p.at = mark
			return found
		}
		found = true
	}
}

// seconds reads "N seconds"; the unit may be left out.
func (p *parser) seconds() (time.Duration, bool) {
	n, ok := p.number()
	if !ok || n <= 0 || n > 1e9 {
		return 0, false
	}
	p.accept("second", "seconds")
	return time.Duration(n * float64(time.Second)), true
}

func (p *parser) number() (float64, bool) {
	t := p.peek()
	if t.quote != 0 || t.text == "" || t.text[0] < '0' || t.text[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		return 0, false
	}
	p.next()
	return n, true
}

func (p *parser) group(from int) {
	if p.end() || p.peek().is("check") {
		p.fail(from, "the name of the group is missing")
		return
	}
	c := p.check()
	c.Groups = append(c.Groups, p.next().text)
}

func (p *parser) depends(from int) {
	p.accept("on")
	c := p.check()
	found := false
	for !p.end() {
		t := p.peek()
		// The list ends at the end of the line, unless the line ends with a comma.
		if t.first && found && !strings.ContainsRune(p.text[p.toks[p.at-1].end:t.start], ',') {
			break
		}
		if t.starts() && (!found || t.first) {
			break
		}
		c.Depends = append(c.Depends, t.text)
		found = true
		p.next()
	}
	if !found {
		p.fail(from, "the name of the service is missing")
	}
}

func (p *parser) mode(from int) {
	switch t := p.next(); {
	case t.is("active"):
		p.check().Mode = ModeActive
	case t.is("passive"):
		p.check().Mode = ModePassive
	case t.is("manual"):
		p.check().Mode = ModeManual
	default:
		p.fail(from, "expected active, passive or manual")
	}
}

func (p *parser) every(from int) {
	n, ok := p.number()
	if ok && p.accept("cycle", "cycles") && n >= 1 && n < 1e6 {
		p.check().Every = int(n)
		return
	}
	if ok {
		p.fail(from, `expected "every N cycles"`)
		return
	}
	p.skip()
	p.unsupported(from, "times of day are not supported")
}
