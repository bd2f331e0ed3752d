package monit

import (
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	defaultConnectTimeout = 5 * time.Second
	maxCycles             = 64 // as in monit, whose history is the bits of one word
)

// rule reads the words after "if": a condition, how often it must be true, "then", an
// action and the "else" part.
func (p *parser) rule(from int) {
	cond, ok := p.condition(from)
	if !ok {
		return
	}
	r := Rule{Matches: 1, Cycles: 1}
	if !p.action(from, &r) {
		p.skip()
		return
	}
	recovery := p.recovery()
	c := words{toks: cond}
	if !c.read(&r) {
		p.unsupported(from, "condition not supported")
		return
	}
	c.rate(&r)
	if len(c.toks) > 0 {
		// A part of a condition would be true more often than the whole condition.
		p.unsupported(from, "condition not supported because of "+strconv.Quote(join(c.toks)))
		return
	}
	if r.Cycles < 1 || r.Matches < 1 || r.Kind != RuleRestarts && (r.Cycles > maxCycles || r.Matches > r.Cycles) {
		p.fail(from, "the number of cycles must be between 1 and %d, and not below the number of times", maxCycles)
		return
	}
	r.Statement = p.cite(from, "")
	if p.check().Kind == KindProcess {
		p.check().Rules = append(p.check().Rules, r)
	}
	switch {
	case r.Kind == RuleConnection && r.Connect.Protocol != "" && r.Connect.Protocol != "http":
		p.unsupported(from, "only the connection is tried, not the protocol "+r.Connect.Protocol)
	case recovery:
		p.unsupported(from, "nothing is done on recovery")
	}
}

// condition returns the tokens between "if" and "then" without noise.
func (p *parser) condition(from int) (cond []token, ok bool) {
	for !p.end() {
		t := p.next()
		if t.is("then") {
			return cond, true
		}
		if t.is("check") || t.first && t.is("if", "group", "start", "stop", "depends", "mode") {
			p.at--
			break
		}
		if !t.noise() {
			cond = append(cond, t)
		}
	}
	p.fail(from, `"then" is missing`)
	return nil, false
}

func (p *parser) action(from int, r *Rule) bool {
	t := p.next()
	actions := map[string]Action{"alert": ActionAlert, "restart": ActionRestart, "start": ActionStart, "stop": ActionStop,
		"unmonitor": ActionUnmonitor, "timeout": ActionUnmonitor, "exec": ActionExec, "execute": ActionExec}
	a, ok := actions[strings.ToLower(t.text)]
	if !ok || t.quote != 0 {
		p.fail(from, "expected alert, restart, start, stop, exec, unmonitor or timeout after then")
		return false
	}
	r.Action = a
	if a != ActionExec {
		return true
	}
	var prog Program
	if p.peek().quote != 0 && !p.end() {
		args, err := argv(p.next().text)
		if err != nil {
			p.fail(from, "%v", err)
			return false
		}
		r.Exec = args
	} else if !p.end() && strings.HasPrefix(p.peek().text, "/") {
		r.Exec = []string{p.next().text}
	}
	if len(r.Exec) == 0 || r.Exec[0] == "" {
		p.fail(from, "the program after exec is missing")
		return false
	}
	if p.owner(&prog) {
		p.unsupported(from, "programs run as the user of the agent")
	}
	return true
}

// recovery ignores "else if succeeded then …" and reports whether its action is
// more than an alert.
func (p *parser) recovery() bool {
	if !p.accept("else") {
		return false
	}
	for !p.end() && !p.peek().is("then") && !p.peek().is("check") {
		p.next()
	}
	p.next()
	if p.accept("alert") {
		return false
	}
	for !p.end() && !p.peek().starts() {
		p.next()
	}
	return true
}

// words are the rest of a condition's tokens.
type words struct{ toks []token }

func (w *words) accept(names ...string) bool {
	if len(w.toks) > 0 && w.toks[0].is(names...) {
		w.toks = w.toks[1:]
		return true
	}
	return false
}

func (w *words) next() string {
	if len(w.toks) == 0 {
		return ""
	}
	t := w.toks[0]
	w.toks = w.toks[1:]
	return t.text
}

// number reads a number, and its unit if no space separates them.
func (w *words) number() (n float64, unit string, ok bool) {
	if len(w.toks) == 0 || w.toks[0].quote != 0 {
		return 0, "", false
	}
	s := w.toks[0].text
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, "", false
	}
	w.toks = w.toks[1:]
	return n, s[end:], true
}

func (w *words) count() (int, bool) {
	before := w.toks
	n, unit, ok := w.number()
	if !ok || unit != "" || n != float64(int(n)) || n > 1e6 {
		w.toks = before
		return 0, false
	}
	return int(n), true
}

// read reads the condition, and reports whether it is supported.
func (w *words) read(r *Rule) bool {
	switch {
	case w.accept("nonexist"), w.accept("not") && w.accept("exist"):
		r.Kind = RuleMissing
		return true
	case w.accept("failed"):
		return w.connection(r)
	}
	kinds := map[string]RuleKind{"mem": RuleMemory, "memory": RuleMemory, "totalmem": RuleTotalMemory, "totalmemory": RuleTotalMemory,
		"cpu": RuleCPU, "totalcpu": RuleTotalCPU, "child": RuleChildren, "children": RuleChildren}
	total := "" // later versions write "total memory"
	if len(w.toks) > 1 && w.toks[1].is("cpu", "mem", "memory") && w.accept("total") {
		total = "total"
	}
	if len(w.toks) > 0 && w.toks[0].quote == 0 {
		if kind, ok := kinds[total+strings.ToLower(w.toks[0].text)]; ok {
			w.next()
			r.Kind = kind
			return w.comparison(r)
		}
	}
	return w.restarts(r)
}

// restarts reads "n restarts within m cycles".
func (w *words) restarts(r *Rule) bool {
	n, ok := w.count()
	if !ok || !w.accept("restart", "restarts") {
		return false
	}
	m, ok := w.count()
	if !ok || !w.accept("cycle", "cycles") {
		return false
	}
	r.Kind, r.Matches, r.Cycles = RuleRestarts, n, m
	return true
}

// comparison reads an operator, a number and a unit.
func (w *words) comparison(r *Rule) bool {
	switch {
	case w.accept(">", "gt", "greater"):
		r.Op = ">"
	case w.accept("<", "lt", "less"):
		r.Op = "<"
	case w.accept("!=", "ne", "notequal"):
		r.Op = "!="
	case w.accept("=", "==", "eq", "equal"):
		r.Op = "="
	default:
		r.Op = "="
	}
	n, unit, ok := w.number()
	if !ok {
		return false
	}
	r.Value = n
	if unit == "" && len(w.toks) > 0 && w.toks[0].is("%", "percent", "b", "byte", "bytes", "kb", "kilobyte", "mb", "megabyte", "gb", "gigabyte") {
		unit = w.next()
	}
	switch strings.ToLower(unit) {
	case "%", "percent":
		r.Percent = true
	case "", "b", "byte", "bytes":
	case "kb", "kilobyte":
		r.Value *= 1 << 10
	case "mb", "megabyte":
		r.Value *= 1 << 20
	case "gb", "gigabyte":
		r.Value *= 1 << 30
	default:
		return false
	}
	return true
}

// connection reads the words after "failed" that describe a port or a socket.
func (w *words) connection(r *Rule) bool {
	c := Connection{Timeout: defaultConnectTimeout}
	host, port := "localhost", 0
	for len(w.toks) > 0 {
		switch {
		case w.accept("host"):
			host = w.next()
		case w.accept("port", "portnumber"):
			n, ok := w.count()
			if !ok || n < 1 || n > 65535 {
				return false
			}
			port = n
		case w.accept("unixsocket", "unix"):
			c.Network, c.Address = "unix", w.next()
		case w.accept("type"):
			if !w.accept("tcp") {
				return false
			}
		case w.accept("protocol", "proto"):
			c.Protocol = strings.ToLower(w.next())
		case w.accept("request"):
			c.Request = w.next()
		case w.accept("timeout"):
			n, _, ok := w.number()
			if !ok || n <= 0 || n > 1e6 {
				return false
			}
			c.Timeout = time.Duration(n * float64(time.Second))
			w.accept("second", "seconds")
		case w.accept("retry"):
			n, ok := w.count()
			if !ok || n > 100 {
				return false
			}
			c.Retry = n
		default:
			return w.connected(r, c, host, port)
		}
	}
	return w.connected(r, c, host, port)
}

func (w *words) connected(r *Rule, c Connection, host string, port int) bool {
	switch {
	case c.Network == "unix" && c.Address != "":
	case port != 0 && host != "":
		c.Network, c.Address = "tcp", net.JoinHostPort(host, strconv.Itoa(port))
	default:
		return false
	}
	r.Kind, r.Connect = RuleConnection, c
	return true
}

// rate reads how often the condition must be true: "5 cycles", "3 times within 5 cycles"
// or nothing.
func (w *words) rate(r *Rule) {
	before := w.toks
	n, ok := w.count()
	if !ok {
		return
	}
	if w.accept("cycle", "cycles") {
		r.Matches, r.Cycles = n, n
		return
	}
	if m, ok := w.count(); ok && w.accept("cycle", "cycles") {
		r.Matches, r.Cycles = n, m
		return
	}
	w.toks = before
}

func join(toks []token) string {
	s := make([]string, len(toks))
	for i, t := range toks {
		s[i] = t.text
	}
	return strings.Join(s, " ")
}
