package monit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/process"
)

// Version is the version of monit whose command line Commands has: that of stemcells.
const Version = "5.2.5"

// Commands answers the command line of monit.
type Commands struct {
	Supervisor *Supervisor
	Reload     func() error // reads the control files again
	Host       string       // name of the machine
	Began      time.Time    // when the supervision began
}

// Answer is what a call of monit prints, and its exit status.
type Answer struct {
	Out  string `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
	Code int    `json:"code,omitempty"`
}

const commandUsage = `Usage: monit [options] {arguments}
 -g name       The group for start, stop, restart, monitor and unmonitor
 -V            Print the version
 -h            Print this text
Other options are accepted, and have no effect. Arguments:
 start, stop, restart, monitor, unmonitor NAME|all
 status, summary, validate, reload, quit
This is the embedded monit of a VM of bootstrap. It cannot be ended: quit has no effect.
`

// line is a call of monit.
type line struct {
	group, action, service string
	grouped                bool
}

// read reads the arguments of a call. done is the answer to a call without a command.
func read(args []string) (l line, done *Answer) {
	var rest []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		switch option := arg[1]; {
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case option == 'V':
			return l, &Answer{Out: "This is Monit version " + Version + "\n"}
		case option == 'h':
			return l, &Answer{Out: commandUsage}
		case option == 't':
			return l, &Answer{Out: "Control file syntax OK\n"}
		case strings.IndexByte("Ivi", option) >= 0:
		case strings.IndexByte("cdglps", option) < 0:
			return l, &Answer{Err: fmt.Sprintf("monit: invalid option -- %c  (-h will show valid options)\n", option), Code: 1}
		default:
			value := arg[2:]
			if value == "" {
				if i++; i == len(args) {
					return l, &Answer{Err: fmt.Sprintf("monit: option -- %c requires an argument\n", option), Code: 1}
				}
				value = args[i]
			}
			if option == 'g' {
				l.group, l.grouped = value, true
			}
		}
	}
	if len(rest) > 0 {
		l.action = rest[0]
	}
	if len(rest) > 1 {
		l.service = rest[1]
	}
	return l, nil
}

// Run carries out a call with these arguments. Actions do not wait until processes have started or
// ended, as those of monit.
func (c Commands) Run(args []string) Answer {
	l, done := read(args)
	if done != nil {
		return *done
	}
	switch l.action {
	case "", "validate":
		c.Supervisor.poke()
		return Answer{}
	case "status", "summary":
		return Answer{Out: c.list(l.action == "status")}
	case "reload":
		if err := c.Reload(); err != nil {
			return Answer{Err: fmt.Sprintf("monit: %v\n", err), Code: 1}
		}
		return Answer{Out: "Reinitializing monit daemon\n"}
	case "quit":
		return Answer{Out: "Monit daemon killed\n"} // on a stemcell it is started again at once
	case "start", "stop", "restart", "monitor", "unmonitor":
		switch {
		case l.grouped || l.service != "":
			if c.Supervisor.act(l) {
				return Answer{}
			}
			return Answer{Err: "monit: action failed -- There is no service by that name\n", Code: 1}
		}
		return Answer{Err: fmt.Sprintf("monit: please specify the configured service name or 'all' after %s\n", l.action), Code: 1}
	}
	return Answer{Err: fmt.Sprintf("monit: invalid argument -- %s  (-h will show valid arguments)\n", l.action), Code: 1}
}

// act starts, stops, monitors or forgets one service, those of a group, or all. It reports whether
// there is a service of that name.
func (s *Supervisor) act(l line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := l.grouped || strings.EqualFold(l.service, "all")
	for _, v := range s.services {
		switch {
		case l.grouped && slices.ContainsFunc(v.check.Groups, func(g string) bool { return strings.EqualFold(g, l.group) }),
			!l.grouped && (strings.EqualFold(l.service, "all") || l.service == v.check.Name):
			v.do(l.action)
			found = true
		}
	}
	s.poke()
	return found
}

// do carries out an action on a service, and on those that it needs or that need it.
func (v *service) do(action string) {
	switch action {
	case "start", "monitor":
		for _, o := range v.requires {
			o.do(action)
		}
		v.start()
	case "restart":
		for _, o := range v.requires {
			o.do("start")
		}
		v.start()
		v.restart()
	case "stop":
		for _, o := range v.dependents {
			o.do(action)
		}
		if v.gaveUp {
			v.phase = idle // the stop program may run again
		}
		v.want, v.gaveUp, v.message = wantStopped, false, ""
	case "unmonitor":
		for _, o := range v.dependents {
			o.do(action)
		}
		v.unmonitor()
	}
}

// list returns the text of summary or, if full, of status.
func (c Commands) list(full bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "The Monit daemon %s uptime: %s\n\n", Version, uptime(time.Since(c.Began)))
	all := sync.OnceValue(process.Usages)
	c.Supervisor.mu.Lock()
	for _, v := range c.Supervisor.services {
		v.write(&out, full, all)
	}
	c.Supervisor.mu.Unlock()
	system := "System 'system_" + c.Host + "'"
	if !full {
		fmt.Fprintf(&out, "%-35s running\n\n", system)
		return out.String()
	}
	fmt.Fprintf(&out, "%s\n  %-33s running\n  %-33s monitored\n", system, "status", "monitoring status")
	collected(&out)
	return out.String()
}

// write writes a service as monit does.
func (v *service) write(out *strings.Builder, full bool, all func() map[int]process.Usage) {
	st := v.status()
	title := "Process '" + v.check.Name + "'"
	state, monitored := v.words(st)
	if !full {
		fmt.Fprintf(out, "%-35s %s\n", title, state)
		return
	}
	row := func(name, format string, values ...any) {
		fmt.Fprintf(out, "  %-33s "+format+"\n", append([]any{name}, values...)...)
	}
	out.WriteString(title + "\n")
	row("status", "%s", state)
	row("monitoring status", "%s", monitored)
	if monitored == "monitored" && st.PID != 0 {
		v.measure(&st, all)
		members := process.Family(st.PID, all)
		_, children := family(members, st.PID)
		own := members[st.PID]
		alone, _ := memory(own, true)
		row("pid", "%d", st.PID)
		row("parent pid", "%d", own.Parent)
		row("uptime", "%s", uptime(st.Uptime))
		row("children", "%d", children)
		row("memory kilobytes", "%d", own.MemoryKB)
		row("memory kilobytes total", "%d", st.MemKB)
		row("memory percent", "%.1f%%", alone)
		row("memory percent total", "%.1f%%", st.MemPct)
		row("cpu percent", "%.1f%%", st.CPUPct)
		row("cpu percent total", "%.1f%%", st.CPUPct)
	}
	collected(out)
}

// words returns the state of a service in monit's words, and whether it is monitored.
func (v *service) words(st Status) (state, monitored string) {
	reason, _, _ := strings.Cut(st.Message, ":")
	switch {
	case v.want == wantStopped && !v.down && !v.gaveUp:
		return StateRunning + " - stop pending", "monitored"
	case !st.Monitored:
		return "not monitored", "not monitored"
	case v.again:
		return StateRunning + " - restart pending", "monitored"
	case st.State == StateFailing && reason != "":
		return reason, "monitored"
	case st.State == StateStarting && st.PID == 0:
		return "initializing - start pending", "initializing"
	case st.State == StateStarting:
		return "initializing", "initializing"
	}
	return st.State, "monitored"
}

func collected(out *strings.Builder) {
	fmt.Fprintf(out, "  %-33s %s\n\n", "data collected", time.Now().Format(time.ANSIC))
}

// uptime returns a time as monit writes it: days and hours only if there are any.
func uptime(d time.Duration) string {
	minutes := int(d / time.Minute)
	text := fmt.Sprintf("%dm ", minutes%60)
	if minutes >= 60 {
		text = fmt.Sprintf("%dh ", minutes/60%24) + text
	}
	if minutes >= 24*60 {
		text = fmt.Sprintf("%dd ", minutes/60/24) + text
	}
	return text
}
