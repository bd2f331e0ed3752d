package monitfile

import (
	"strings"
	"time"
)

// checkKind returns the kind of a check by its keyword.
func checkKind(text string) Kind { return Kind(strings.TrimPrefix(text, "check ")) }

func (p *parser) checkHead(from int) bool {
	head := p.next()
	kind := checkKind(head.text)
	name, ok := p.take(service)
	if !ok {
		return p.expected(from, "the name")
	}
	c := Check{Kind: kind, Name: name.text, File: p.name, Line: head.line, Mode: ModeActive}
	if strings.HasPrefix(c.Name, "/") {
		p.fail(from, "the name must not begin with /")
	}
	if kind == KindProcess {
		return p.processHead(from, c)
	}
	switch kind {
	case KindSystem:
	case KindHost:
		if !p.accept("address") {
			return p.expected(from, `"with address" and a name or address`)
		}
		if _, ok := p.take(str); !ok {
			return p.expected(from, "a name or address")
		}
	default:
		if !p.accept("path") {
			return p.expected(from, `"with path" and a path`)
		}
		if _, ok := p.take(path); !ok {
			return p.expected(from, "an absolute path")
		}
	}
	p.checks, p.open = append(p.checks, c), true
	p.unsupported(from, "only processes are supervised")
	return true
}

func (p *parser) processHead(from int, c Check) bool {
	switch {
	case p.accept("pidfile", "path"):
		t, ok := p.take(path)
		if !ok {
			return p.expected(from, "an absolute path of the pid file")
		}
		c.PidFile = t.text
		p.checks, p.open = append(p.checks, c), true
	case p.accept("match"):
		t, ok := p.take(str, path)
		if !ok {
			return p.expected(from, "a regular expression")
		}
		if why := badRegexp(t.text); why != "" {
			return p.fail(from, "the regular expression is not valid: %s", why)
		}
		c.Matching = t.text
		p.checks, p.open = append(p.checks, c), true
		p.unsupported(from, "processes are only found by their pid files")
	default:
		return p.expected(from, `"with pidfile" and a path`)
	}
	return true
}

// program reads the rest of a start or stop statement.
func (p *parser) program(from int, into *Program) bool {
	prog := Program{Timeout: DefaultTimeout, Line: p.toks[from].line}
	var ok bool
	if prog.Argv, ok = p.arguments(from); !ok {
		return false
	}
	as, ok := p.owner(from, &prog)
	if !ok {
		return false
	}
	if p.peek().is("timeout") {
		seconds, ok := p.timeout(from)
		if !ok {
			return false
		}
		prog.Timeout = time.Duration(min(max(seconds, 1), maxTimeout)) * time.Second
		if p.peek().is("uid", "gid") {
			p.next()
			p.skip()
			return p.fail(from, `"as uid" and "and gid" must be before "with timeout"`)
		}
	}
	*into = prog // the last one counts
	if as {
		p.unsupported(from, whyOwner)
	}
	return true
}

// arguments reads a program and its arguments.
func (p *parser) arguments(from int) (argv []string, ok bool) {
	for {
		t, ok := p.take(str, path)
		if !ok {
			break
		}
		argv = append(argv, t.text)
	}
	switch {
	case len(argv) == 0:
		return nil, p.expected(from, "a program in quotes")
	case len(argv) > maxArguments:
		return nil, p.fail(from, "the program has more than %d words, which monit mixes up", maxArguments)
	}
	return argv, true
}

// owner reads "as uid x and gid y".
func (p *parser) owner(from int, prog *Program) (found, ok bool) {
	for p.peek().is("uid", "gid") {
		into := &prog.UID
		if p.next().is("gid") {
			into = &prog.GID
		}
		t, ok := p.take(str, number)
		if !ok {
			return false, p.expected(from, "the name of a user or group")
		}
		*into = t.text
		found = true
	}
	return found, true
}
