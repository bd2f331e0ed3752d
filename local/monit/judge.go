package monit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/mem"

	"bootstrap/internal/guard"
	"bootstrap/internal/monitfile"
	"bootstrap/internal/process"
)

// A ruleState has the results of one rule in the last cycles.
type ruleState struct {
	bits uint64 // the lowest bit is the last cycle
	on   bool   // true: the condition was true for long enough in the last cycle
}

type cpuSample struct {
	of         process.Identity
	at         time.Time
	own, total time.Duration
}

func (v *service) resetRules() {
	v.rules, v.ruleMsg, v.lastRule = make([]ruleState, len(v.check.Rules)), "", cpuSample{}
	v.ruleAt = time.Now().Add(v.ruleCycle())
}

func (v *service) ruleCycle() time.Duration {
	return v.s.cfg.RuleCycle * time.Duration(max(v.check.Every, 1))
}

// judge evaluates the rules of a running service at the end of their cycle. Measuring
// waits for networks, so it has its own goroutine.
func (v *service) judge(now time.Time) time.Time {
	if v.fails > 0 && now.Sub(v.settled) >= v.s.cfg.RuleCycle {
		v.fails = 0
	}
	next := now.Add(v.s.cfg.Cycle)
	if v.ruling || len(v.rules) == 0 {
		return next
	}
	if now.Before(v.ruleAt) {
		return earlier(next, v.ruleAt)
	}
	v.ruling, v.ruleAt = true, now.Add(v.ruleCycle())
	m := measuring{rules: v.check.Rules, of: v.proc, last: v.lastRule, resolve: v.s.cfg.Resolve}
	v.s.done.Go(guard.Part(v.s.ctx, func() {
		m.run(v.s.ctx)
		v.s.mu.Lock()
		defer v.s.mu.Unlock()
		v.ruling = false
		if v.proc == m.of && v.phase == running && v.want == wantRunning && len(m.rules) == len(v.rules) {
			v.lastRule = m.now
			v.verdict(time.Now(), m)
		}
		v.s.poke()
	}))
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// verdict adds a cycle to the history of each rule and takes the necessary actions.
func (v *service) verdict(now time.Time, m measuring) {
	v.ruleMsg = ""
	for i, r := range m.rules {
		if r.Kind == monitfile.RuleRestarts || r.Kind == monitfile.RuleMissing {
			continue
		}
		bits := v.rules[i].bits << 1
		if m.found[i] != "" {
			bits |= 1
		}
		v.rules[i].bits = bits
		n := 0
		for c := range r.Cycles {
			n += int(bits >> c & 1)
		}
		was := v.rules[i].on
		v.rules[i].on = n >= r.Matches
		if !v.rules[i].on {
			continue
		}
		if m.found[i] != "" {
			v.ruleMsg = m.found[i]
		}
		if r.Action != monitfile.ActionAlert || !was {
			v.report(true, "%s: %s", v.ruleMsg, r.Action)
		}
		if r.Action == monitfile.ActionAlert {
			continue
		}
		// The condition must be true for the full time again before the next action.
		v.rules[i].bits = 0
		v.act(now, r)
		if v.phase != running || v.want != wantRunning {
			return
		}
	}
}

// act takes the action of a rule.
func (v *service) act(now time.Time, r monitfile.Rule) {
	switch r.Action {
	case monitfile.ActionRestart, monitfile.ActionStart:
		if v.proc.PID != 0 {
			v.message = v.ruleMsg
			v.countRestart(now)
			if v.want == wantRunning {
				v.restart()
			}
		}
	case monitfile.ActionStop:
		v.want, v.gaveUp, v.down = wantStopped, false, false
		for _, d := range v.dependents {
			if d.want == wantRunning {
				d.act(now, r)
			}
		}
	case monitfile.ActionUnmonitor:
		v.unmonitor()
	case monitfile.ActionExec:
		if _, err := v.s.launch(r.Exec); err != nil {
			v.report(true, "%v", err)
		}
	}
}

// measuring is the evaluation of the rules of a process in one cycle.
type measuring struct {
	rules   []monitfile.Rule
	of      process.Identity
	last    cpuSample
	resolve func(string) string

	now   cpuSample
	found []string // the failure of each rule; "" for none
}

func (m *measuring) run(ctx context.Context) {
	m.found = make([]string, len(m.rules))
	var sum, own process.Usage
	children := 0
	for _, r := range m.rules {
		if r.Kind != monitfile.RuleConnection && r.Kind != monitfile.RuleRestarts && r.Kind != monitfile.RuleMissing && m.now.at.IsZero() {
			all := process.Family(m.of.PID, process.Usages)
			own = all[m.of.PID]
			sum, children = family(all, m.of.PID)
			m.now = cpuSample{of: m.of, at: time.Now(), own: own.CPU, total: sum.CPU}
		}
	}
	for i, r := range m.rules {
		value, known := 0.0, true
		switch r.Kind {
		case monitfile.RuleConnection:
			err := m.connect(ctx, r.Connect)
			if err != nil {
				m.found[i] = "Connection failed: " + err.Error()
			}
			continue
		case monitfile.RuleMemory:
			value, known = memory(own, r.Percent)
		case monitfile.RuleTotalMemory:
			value, known = memory(sum, r.Percent)
		case monitfile.RuleCPU:
			value, known = percentCPU(m.last.at, m.now.at, m.last.own, m.now.own)
		case monitfile.RuleTotalCPU:
			value, known = percentCPU(m.last.at, m.now.at, m.last.total, m.now.total)
		case monitfile.RuleChildren:
			value = float64(children)
		default:
			continue
		}
		if known && holds(r, value) {
			m.found[i] = fmt.Sprintf("Resource limit matched: %s is %s", r.Kind, show(r, value))
		}
	}
}

// holds reports whether the condition of a rule is true for the value.
func holds(r monitfile.Rule, value float64) bool {
	switch r.Op {
	case ">":
		return value > r.Value
	case "<":
		return value < r.Value
	case "!=":
		return value != r.Value
	}
	return value == r.Value
}

func show(r monitfile.Rule, value float64) string {
	switch {
	case r.Kind == monitfile.RuleChildren:
		return fmt.Sprintf("%.0f", value)
	case r.Percent || r.Kind == monitfile.RuleCPU || r.Kind == monitfile.RuleTotalCPU:
		return fmt.Sprintf("%.1f%%", value)
	}
	return fmt.Sprintf("%.1f MB", value/(1<<20))
}

// memory returns the memory in bytes, or in percent of the machine's.
func memory(u process.Usage, percent bool) (float64, bool) {
	if !percent {
		return float64(u.MemoryKB) * 1024, true
	}
	all, err := mem.VirtualMemory()
	if err != nil || all.Total == 0 {
		return 0, false
	}
	return float64(u.MemoryKB) * 1024 / float64(all.Total) * 100, true
}

// percentCPU returns the share of all processors between two samples.
func percentCPU(from, to time.Time, before, after time.Duration) (float64, bool) {
	if from.IsZero() || !to.After(from) {
		return 0, false
	}
	return max(0, float64(after-before)/float64(to.Sub(from))/float64(runtime.NumCPU())*100), true
}

func (m *measuring) connect(ctx context.Context, c monitfile.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	address := c.Address
	if c.Network == "unix" {
		address = m.resolve(address)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, c.Network, address)
	}
	if c.Protocol != "http" {
		conn, err := dial(ctx, "", "")
		if err != nil {
			return err
		}
		return conn.Close()
	}
	path := c.Request
	if path == "" {
		path = "/"
	}
	host := address
	if c.Network == "unix" {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DialContext: guard.Dial(dial), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode >= 400 {
		return fmt.Errorf("GET %s on %s answers %s", path, address, resp.Status)
	}
	return nil
}

// measure fills in the memory of the process, and its share of the processors
// since the last Status or since its start.
func (v *service) measure(st *Status, all func() map[int]process.Usage) {
	if st.PID == 0 {
		v.lastCPU = cpuSample{}
		return
	}
	sum, _ := family(process.Family(st.PID, all), st.PID)
	now := cpuSample{of: process.Identity{PID: st.PID}, at: time.Now(), total: sum.CPU}
	st.MemKB = int(sum.MemoryKB)
	st.MemPct, _ = memory(sum, true)
	last := v.lastCPU
	if last.of != now.of || last.total > now.total {
		last = cpuSample{at: now.at.Add(-st.Uptime)}
	}
	st.CPUPct, _ = percentCPU(last.at, now.at, last.total, now.total)
	v.lastCPU = now
}
