package ui

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/observe"
)

// Condition prints the state of a deployment, for people.
func Condition(out *Writer, c *observe.Condition, now time.Time) {
	conditionFacts(out, c, now)
	conditionProcesses(out, c)
	conditionDisks(out, c)
	conditionCertificates(out, c)
	if len(c.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, text := range c.Notes {
		Say(out, "Note: "+text)
	}
	if c.Well {
		out.paint(green, "\nAll is well.\n")
		return
	}
	out.paint(alarm, "\nNot well:\n")
	for _, text := range c.Problems {
		Say(out, "- "+text)
	}
}

// conditionFacts prints the facts that have a single value.
func conditionFacts(out *Writer, c *observe.Condition, now time.Time) {
	table := NewTable(out)
	defer table.Print()
	line := func(name, format string, args ...any) { table.Row(name, fmt.Sprintf(format, args...)) }
	line("State file", "%s", c.StateFile)
	if c.Deployment != "" || c.Group != "" {
		line("Deployment", "%s, instance %s/%d", orDash(c.Deployment), orDash(c.Group), c.Index)
	}
	line("VM", "%s", vmText(c))
	line("Agent", "%s", agentText(c))
	line("Jobs", "%s", jobsText(c))
	for _, h := range c.Health {
		text := h.Check + ": well"
		if !h.Well {
			text = h.Check + ": fails: " + h.Error
		}
		line("Health", "%s", text)
	}
	if len(c.Addresses) > 0 {
		line("Addresses", "%s", joined(c.Addresses, func(a observe.SeenAddress) string {
			if a.Network == "" {
				return a.IP
			}
			return a.IP + " (" + a.Network + ")"
		}))
	}
	if len(c.Stemcells) > 0 {
		line("Stemcell", "%s", joined(c.Stemcells, func(s observe.SeenRecord) string {
			text := fmt.Sprintf("%s/%s (%s)", s.Name, s.Version, s.CID)
			if !s.Current {
				text += ", unused"
			}
			return text
		}))
	}
	if len(c.Releases) > 0 {
		line("Releases", "%s", joined(c.Releases, func(r observe.SeenRecord) string { return r.Name + "/" + r.Version }))
	}
	line("Last deploy", "%s", deployText(c, now))
	for _, u := range c.Unfinished {
		text := u.Method + " since " + Moment(u.Started)
		if u.CID != "" {
			text += " of " + u.CID
		}
		if u.AgentID != "" {
			text += ", agent id " + u.AgentID
		}
		line("Unfinished", "%s", text)
	}
	vitalsLines(c.Vitals, line)
}

func vmText(c *observe.Condition) string {
	switch {
	case c.Detached:
		return "none: deleted with bootstrap stop --hard"
	case c.VM == nil:
		return "none"
	case c.VM.Old != "":
		return c.VM.CID + ", replaces " + c.VM.Old
	}
	return c.VM.CID
}

func agentText(c *observe.Condition) string {
	switch a := c.Agent; {
	case a == nil:
		return "-"
	case a.Answers:
		return "answers at " + a.Address
	case a.LoginRefused():
		return fmt.Sprintf("answers at %s, but does not accept the password: %s", a.Address, a.Cause)
	case a.Cause != "":
		return fmt.Sprintf("does not answer at %s: %s", a.Address, a.Cause)
	default:
		return "does not answer at " + a.Address
	}
}

func jobsText(c *observe.Condition) string {
	if c.JobState == "running" && len(c.Jobs) == 0 && len(c.Processes) == 0 {
		if c.Finished {
			return "none: nothing is applied to this VM" // agents call that running
		}
		return "none yet: nothing was applied to this VM"
	}
	text := orDash(c.JobState)
	if c.JobState == "running" && !c.Finished && !c.Stopped && len(c.Processes) == 0 {
		text = "no process yet" // agents call that running, too
	}
	if c.Stopped {
		text += ", stopped on purpose"
	}
	if len(c.Jobs) > 0 {
		text += ": " + strings.Join(c.Jobs, ", ")
	}
	return text
}

func deployText(c *observe.Condition, now time.Time) string {
	text := "did not finish"
	if c.Finished {
		text = "finished"
	}
	switch {
	case c.Idle && c.LastDeploy != nil:
		return "deleted; the last one finished " + Moment(*c.LastDeploy)
	case c.Idle:
		return "none"
	case c.Detached && c.LastDeploy != nil:
		return "finished " + Moment(*c.LastDeploy)
	case c.LastDeploy == nil && !c.Finished:
		return text
	case c.LastDeploy == nil:
		return text + "; the time is not recorded"
	case !c.Finished:
		return fmt.Sprintf("%s; the last finished one: %s", text, Moment(*c.LastDeploy))
	}
	return fmt.Sprintf("%s %s (%s ago)", text, Moment(*c.LastDeploy), span(now.Sub(*c.LastDeploy)))
}

func vitalsLines(v *observe.Vitals, line func(name, format string, args ...any)) {
	if v == nil {
		return
	}
	var parts []string
	if len(v.Load) > 0 {
		parts = append(parts, "load "+joined(v.Load, observe.Figure.String))
	}
	for _, p := range []struct {
		name  string
		value observe.Figure
	}{{"CPU user", v.CPU.User}, {"sys", v.CPU.Sys}, {"wait", v.CPU.Wait}, {"memory", v.Memory.Percent}, {"swap", v.Swap.Percent}} {
		if p.value.Known() {
			parts = append(parts, fmt.Sprintf("%s %s%%", p.name, p.value))
		}
	}
	if v.Uptime.Seconds.Known() {
		parts = append(parts, "up "+spanOf(*v.Uptime.Seconds.Value))
	}
	if len(parts) > 0 {
		line("Vitals", "%s", strings.Join(parts, ", "))
	}
	if len(v.Disks) > 0 {
		line("Disks full", "%s", joined(slices.Sorted(maps.Keys(v.Disks)), func(name string) string {
			return fmt.Sprintf("%s %s%%", name, v.Disks[name].Percent)
		}))
	}
}

func conditionProcesses(out *Writer, c *observe.Condition) {
	if len(c.Processes) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := NewTable(out, "PROCESS", "STATE", "UPTIME", "CPU", "MEMORY").
		Yield("CPU", 0).Yield("MEMORY", 0).Yield("UPTIME", 0)
	for _, p := range c.Processes {
		table.Row(p.Name, p.State, spanOf(float64(p.Uptime)), fmt.Sprintf("%.1f%%", p.CPU),
			fmt.Sprintf("%s (%.1f%%)", Size(min(int64(p.Memory), math.MaxInt64>>10)<<10), p.Percent))
	}
	table.Print()
}

func conditionDisks(out *Writer, c *observe.Condition) {
	if len(c.Disks) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := NewTable(out, "DISK", "SIZE", "USE", "MOUNTED").
		Yield("USE", 12).Yield("SIZE", 0).Yield("MOUNTED", 0)
	for _, d := range c.Disks {
		mounted := "-"
		if d.Mounted != nil {
			mounted = map[bool]string{true: "yes", false: "no"}[*d.Mounted]
		}
		use := useOf(d)
		if d.Since != nil {
			use += " since " + Moment(*d.Since)
		}
		if d.Why != "" {
			use += ": " + d.Why
		}
		table.Row(d.CID, mebibytes(d.Size), use, mounted)
	}
	table.Print()
}

func conditionCertificates(out *Writer, c *observe.Condition) {
	if len(c.Certificates) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := NewTable(out, "CERTIFICATE", "SUBJECT", "FOR", "EXPIRES").
		Yield("FOR", 12).Yield("SUBJECT", 16).Yield("EXPIRES", 12).Yield("FOR", 0).Yield("SUBJECT", 0)
	for _, cert := range c.Certificates {
		left := fmt.Sprintf("%d days left", cert.DaysLeft)
		switch {
		case cert.DaysLeft < 0:
			left = "expired"
		case cert.DaysLeft == 1:
			left = "1 day left"
		}
		table.Row(cert.What, orDash(cert.Subject), orDash(strings.Join(cert.Names, ", ")), fmt.Sprintf("%s (%s)", Moment(cert.NotAfter), left))
	}
	table.Print()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func joined[T any](list []T, text func(T) string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = text(v)
	}
	return strings.Join(parts, ", ")
}

// span returns a duration in its two largest units.
func span(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
}

// spanOf is span for seconds that an agent reports. They may be more than a time.Duration
// can have.
func spanOf(seconds float64) string {
	return span(time.Duration(min(max(seconds, 0), float64(math.MaxInt64/2)/1e9) * float64(time.Second)))
}
