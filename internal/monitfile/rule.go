package monitfile

import (
	"strconv"
	"time"
)

const (
	defaultConnectTimeout = 5 * time.Second
	maxCycles             = 64 // as in monit, whose history is the bits of one word
)

// A condition is what a statement found between "if" and "then".
type condition struct {
	Rule
	why      string // why it is not supported; empty: it is, or only partly, see note
	note     string // what of it is not supported
	recovers bool   // the statement can have an else part
	times    bool   // it can say how often it must be true
	restarts bool   // it counts restarts
}

// rule reads the words after "if".
func (p *parser) rule(from int) bool {
	c := condition{Rule: Rule{Matches: 1, Cycles: 1}, recovers: true, times: true}
	if !p.condition(from, &c) || c.times && !p.rate(from, &c.Rule) {
		return false
	}
	if !p.accept("then") {
		return p.afterCondition(from)
	}
	if c.restarts && p.accept("timeout") {
		c.Action = ActionUnmonitor
	} else if !p.action(from, &c.Rule) {
		return false
	}
	recovery := false
	if c.recovers && p.accept("else") {
		var ok bool
		if recovery, ok = p.recovery(from); !ok {
			return false
		}
	}
	if c.why != "" {
		p.unsupported(from, c.why)
		return true
	}
	c.Statement = p.cite(from, "")
	p.check().Rules = append(p.check().Rules, c.Rule)
	if recovery && c.note == "" {
		c.note = "nothing is done on recovery"
	}
	if c.note != "" {
		p.unsupported(from, c.note)
	}
	return true
}

// afterCondition reports that "then" is missing, with the usual reasons.
func (p *parser) afterCondition(from int) bool {
	switch t := p.peek(); {
	case t.is("timeout"):
		return p.expected(from, `"then": "with timeout" must be before "for … cycles"`)
	case t.is("percent", "byte", "kilobyte", "megabyte", "gigabyte", "second", "minute", "hour", "day"):
		return p.expected(from, `"then": this value has no such unit`)
	}
	return p.expected(from, `"then"`)
}

// condition reads what follows "if", up to how often it must be true.
func (p *parser) condition(from int, c *condition) bool {
	kind := p.check().Kind
	c.why = "condition not supported"
	if kind != KindProcess {
		c.why = "only processes are supervised"
	}
	t := p.peek()
	switch {
	case t.kind == number:
		return p.restarts(from, c)
	case t.is("not") && p.ahead(1).is("exist") && kind != KindSystem:
		p.at += 2
		if kind == KindProcess {
			c.Kind, c.why = RuleMissing, ""
		}
		return true
	case t.is("failed"):
		p.next()
		return p.failed(from, c)
	case t.is("changed"):
		p.next()
		c.recovers = false
		return p.changed(from)
	case kind == KindFile && (t.is("match") || t.is("not") && p.ahead(1).is("match")):
		c.recovers = false
		return p.matching(from)
	case kind == KindFile && t.is("size"), kind == KindFilesystem && t.is("inode", "space"), t.is("timestamp") && p.dated():
		return p.measured(from)
	case kind == KindProcess || kind == KindSystem:
		return p.resources(from, c)
	}
	return p.expected(from, "a condition for a "+string(kind))
}

// dated reports whether the check is of something with a time of change.
func (p *parser) dated() bool {
	kind := p.check().Kind
	return kind == KindFile || kind == KindDirectory || kind == KindFifo
}

// owned reports whether the check is of something with an owner and permissions.
func (p *parser) owned() bool { return p.dated() || p.check().Kind == KindFilesystem }

// restarts reads "n restarts within m cycles".
func (p *parser) restarts(from int, c *condition) bool {
	n := p.next().number
	if !p.accept("restart") {
		return p.expected(from, `"restarts"`)
	}
	m, ok := p.take(number)
	if !ok {
		return p.expected(from, `"within" and a number of cycles`)
	}
	if !p.accept("cycle") {
		return p.expected(from, `"cycles"`)
	}
	if n < 1 || m.number < 1 || n > m.number {
		return p.fail(from, "the number of restarts must be at least 1, and not above the number of cycles")
	}
	c.Kind, c.Matches, c.Cycles, c.recovers, c.times, c.restarts = RuleRestarts, min(n, 1_000_000), min(m.number, 1_000_000), false, false, true
	if p.check().Kind == KindProcess {
		c.why = ""
	}
	return true
}

// failed reads the words after "failed".
func (p *parser) failed(from int, c *condition) bool {
	kind := p.check().Kind
	t := p.peek()
	switch {
	case kind == KindProcess && t.is("unixsocket"):
		return p.connection(from, c)
	case (kind == KindProcess || kind == KindHost) && t.is("host", "port"):
		p.tested = true
		return p.connection(from, c)
	case (kind == KindProcess || kind == KindHost) && t.is("url"):
		p.tested = true
		return p.failedURL(from)
	case kind == KindHost && t.is("icmp"):
		p.tested = true
		return p.icmp(from)
	case kind == KindFile && t.is("md5", "sha1", "checksum"):
		return p.checksum(from)
	case p.owned() && t.is("permission"):
		p.next()
		n, ok := p.take(number)
		if !ok {
			return p.expected(from, "an octal number")
		}
		if perm, err := strconv.ParseUint(strconv.Itoa(n.number), 8, 32); err != nil || perm > 0o7777 {
			return p.fail(from, "the permission must be an octal number between 0 and 7777")
		}
		return true
	case p.owned() && t.is("uid", "gid"):
		p.next()
		return p.need(from, "the name of a user or group", str, number)
	}
	return p.expected(from, "what failed, such as a port")
}

// changed reads the words after "changed".
func (p *parser) changed(from int) bool {
	kind := p.check().Kind
	switch {
	case kind == KindProcess && p.accept("pid", "ppid"),
		p.dated() && p.accept("timestamp"),
		kind == KindFile && p.accept("size"),
		kind == KindFilesystem && p.accept("fsflag"):
		return true
	case kind == KindFile && p.peek().is("md5", "sha1", "checksum"):
		p.accept("md5", "sha1")
		if !p.accept("checksum") {
			return p.expected(from, `"checksum"`)
		}
		return true
	}
	return p.expected(from, "what changed, such as pid")
}

func (p *parser) checksum(from int) bool {
	hash := p.peek()
	p.accept("md5", "sha1")
	if !p.accept("checksum") {
		return p.expected(from, `"checksum"`)
	}
	if !p.accept("expect") {
		return true
	}
	t, ok := p.take(str)
	if !ok {
		return p.expected(from, "a checksum")
	}
	digits := 0
	for i := range len(t.text) {
		if c := t.text[i]; isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			digits++
		}
	}
	if digits != 32 && digits != 40 || hash.is("md5") && digits != 32 || hash.is("sha1") && digits != 40 {
		return p.fail(from, "the checksum must have 32 digits for MD5, or 40 for SHA1")
	}
	return true
}

// matching reads "match" and a regular expression, or a file of them.
func (p *parser) matching(from int) bool {
	p.accept("not")
	if !p.accept("match") {
		return p.expected(from, `"match"`)
	}
	t, ok := p.take(str, path)
	if !ok {
		return p.expected(from, "a regular expression, or a file of them")
	}
	if why := badRegexp(t.text); t.kind == str && why != "" {
		return p.fail(from, "the regular expression is not valid: %s", why)
	}
	return true
}

// measured reads a size, a time of change, or the use of a filesystem.
func (p *parser) measured(from int) bool {
	what := p.next()
	p.operator()
	t, ok := p.take(number, real)
	switch {
	case !ok, t.kind == real && !what.is("space"):
		return p.expected(from, "a number")
	case what.is("timestamp"):
		p.accept("second", "minute", "hour", "day")
	case what.is("size"):
		p.unit()
	case t.kind == number && p.accept("percent"), what.is("inode"):
	default:
		p.unit()
	}
	return true
}

// operator reads a comparison; without one, it is "=".
func (p *parser) operator() string {
	switch t := p.peek(); {
	case t.is(">", "<", "=", "!="):
		p.next()
		return t.text
	case t.is("changed"):
		p.next()
		return "!="
	}
	return "="
}

// resources reads one or several measurements.
func (p *parser) resources(from int, c *condition) bool {
	first := p.at
	for n := 0; ; n++ {
		if n > 0 && !p.measures() {
			return true
		}
		if !p.resource(from, c) {
			return false
		}
		if n == 1 && p.check().Kind == KindProcess {
			// One part of a condition would be true more often than the whole condition.
			c.why = "condition not supported because of " + strconv.Quote(p.cite(first, "").Text)
		}
		if n == 0 {
			first = p.at
		}
	}
}

// measures reports whether the next token is something that a process or a system uses.
func (p *parser) measures() bool {
	return p.peek().is("cpu", "totalcpu", "mem", "totalmem", "children", "swap", "loadavg1", "loadavg5", "loadavg15", "cpuuser", "cpusystem", "cpuwait")
}

// resource reads one measurement.
func (p *parser) resource(from int, c *condition) bool {
	kind := p.check().Kind
	kinds := map[string]RuleKind{"mem": RuleMemory, "totalmem": RuleTotalMemory, "cpu": RuleCPU, "totalcpu": RuleTotalCPU, "children": RuleChildren}
	t := p.next()
	processes := t.is("cpu", "totalcpu", "children")
	switch {
	case kind == KindProcess && processes, kind == KindSystem && t.is("cpuuser", "cpusystem", "cpuwait", "swap"),
		t.is("mem", "totalmem", "loadavg1", "loadavg5", "loadavg15"):
	default:
		p.at--
		return p.expected(from, "a condition for a "+string(kind))
	}
	c.Op = p.operator()
	n, ok := p.take(number, real)
	exact := !t.is("mem", "totalmem", "swap", "loadavg1", "loadavg5", "loadavg15") // only these can have a point
	if !ok || n.kind == real && exact {
		return p.expected(from, "a number")
	}
	c.Percent = false
	switch {
	case t.is("children", "loadavg1", "loadavg5", "loadavg15"):
	case exact && !p.accept("percent"):
		return p.expected(from, `"%"`)
	case exact:
		c.Percent = true
	case n.kind == number && p.accept("percent"):
		c.Percent = true
	}
	c.Value = float64(n.number)
	if n.kind == real {
		c.Value, _ = strconv.ParseFloat(n.text, 64)
	}
	if t.is("mem", "totalmem", "swap") && !c.Percent {
		for i, unit := range []string{"byte", "kilobyte", "megabyte", "gigabyte"} {
			if p.accept(unit) {
				c.Value *= float64(int(1) << (10 * i))
			}
		}
	}
	if rule, known := kinds[t.text]; known && kind == KindProcess && c.Kind == "" {
		c.Kind, c.why = rule, ""
	}
	return true
}

// rate reads how often the condition must be true: "5 cycles", "3 times within 5 cycles" or
// nothing.
func (p *parser) rate(from int, r *Rule) bool {
	n, ok := p.take(number)
	if !ok {
		return true
	}
	m, two := p.take(number)
	if !two {
		m = n
	}
	if !p.accept("cycle") {
		return p.expected(from, `"cycles"`)
	}
	if m.number < 1 || m.number > maxCycles || n.number < 1 || n.number > m.number {
		return p.fail(from, "the number of cycles must be between 1 and %d, and not below the number of times", maxCycles)
	}
	r.Matches, r.Cycles = n.number, m.number
	return true
}

// action reads the word after "then".
func (p *parser) action(from int, r *Rule) bool {
	t := p.peek()
	switch {
	case t.is("alert", "restart", "start", "stop", "unmonitor"):
		p.next()
		r.Action = Action(t.text)
		return true
	case !t.is("exec"):
		return p.expected(from, "alert, restart, start, stop, exec or unmonitor after then")
	}
	p.next()
	r.Action = ActionExec
	var ok bool
	if r.Exec, ok = p.arguments(from); !ok {
		return false
	}
	var prog Program
	as, ok := p.owner(from, &prog)
	if as && ok {
		p.unsupported(from, "programs run as the user of the agent")
	}
	return ok
}

// recovery reads the part after else, and reports whether its action is more than an alert.
func (p *parser) recovery(from int) (more, ok bool) {
	if !p.accept("if") || !p.accept("recovered", "passed", "succeeded") {
		return false, p.expected(from, `"if succeeded" after else`)
	}
	var r Rule
	if !p.rate(from, &r) {
		return false, false
	}
	if !p.accept("then") {
		return false, p.expected(from, `"then"`)
	}
	if !p.action(from, &r) {
		return false, false
	}
	return r.Action != ActionAlert, true
}
