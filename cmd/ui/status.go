package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"bootstrap/deployer"
)

// Condition prints how a deployment is, for people.
func Condition(out io.Writer, c *deployer.Condition, now time.Time) {
	conditionFacts(out, c, now)
	conditionProcesses(out, c)
	conditionDisks(out, c)
	conditionCertificates(out, c)
	if len(c.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, text := range c.Notes {
		fmt.Fprintf(out, "Note: %s\n", text)
	}
	if c.Well {
		fmt.Fprint(out, "\nAll is well.\n")
		return
	}
	fmt.Fprint(out, "\nNot well:\n")
	for _, text := range c.Problems {
		fmt.Fprintf(out, "- %s\n", text)
	}
}

// conditionFacts prints what there is one of.
func conditionFacts(out io.Writer, c *deployer.Condition, now time.Time) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("State file", "%s", c.StateFile)
	if c.Deployment != "" || c.Group != "" {
		line("Deployment", "%s, instance %s/0", orDash(c.Deployment), orDash(c.Group))
	}
	line("VM", "%s", vmText(c))
	line("Agent", "%s", agentText(c))
	line("Jobs", "%s", jobsText(c))
	if len(c.Addresses) > 0 {
		line("Addresses", "%s", joined(c.Addresses, func(a deployer.SeenAddress) string {
			if a.Network == "" {
				return a.IP
			}
			return a.IP + " (" + a.Network + ")"
		}))
	}
	if len(c.Stemcells) > 0 {
		line("Stemcell", "%s", joined(c.Stemcells, func(s deployer.SeenRecord) string {
			text := fmt.Sprintf("%s/%s (%s)", s.Name, s.Version, s.CID)
			if !s.Current {
				text += ", unused"
			}
			return text
		}))
	}
	if len(c.Releases) > 0 {
		line("Releases", "%s", joined(c.Releases, func(r deployer.SeenRecord) string { return r.Name + "/" + r.Version }))
	}
	line("Last deploy", "%s", deployText(c, now))
	for _, u := range c.Unfinished {
		text := u.Method + " since " + moment(u.Started)
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

func vmText(c *deployer.Condition) string {
	switch {
	case c.VM == nil:
		return "none"
	case c.VM.Old != "":
		return c.VM.CID + ", replaces " + c.VM.Old
	}
	return c.VM.CID
}

func agentText(c *deployer.Condition) string {
	switch a := c.Agent; {
	case a == nil:
		return "-"
	case a.Answers:
		return "answers at " + a.Address
	case a.Cause != "":
		return fmt.Sprintf("does not answer at %s: %s", a.Address, a.Cause)
	default:
		return "does not answer at " + a.Address
	}
}

func jobsText(c *deployer.Condition) string {
	text := orDash(c.JobState)
	if c.Stopped {
		text += ", stopped on purpose"
	}
	if len(c.Jobs) > 0 {
		text += ": " + strings.Join(c.Jobs, ", ")
	}
	return text
}

func deployText(c *deployer.Condition, now time.Time) string {
	text := "did not finish"
	if c.Finished {
		text = "finished"
	}
	switch {
	case c.LastDeploy == nil && !c.Finished:
		return text
	case c.LastDeploy == nil:
		return text + ", when is not recorded"
	case !c.Finished:
		return fmt.Sprintf("%s; the last that did: %s", text, moment(*c.LastDeploy))
	}
	return fmt.Sprintf("%s %s (%s ago)", text, moment(*c.LastDeploy), span(now.Sub(*c.LastDeploy)))
}

func vitalsLines(v *deployer.Vitals, line func(name, format string, args ...any)) {
	if v == nil {
		return
	}
	var parts []string
	if len(v.Load) > 0 {
		parts = append(parts, "load "+joined(v.Load, func(f deployer.Figure) string { return string(f) }))
	}
	for _, p := range []struct {
		name  string
		value deployer.Figure
	}{{"CPU user", v.CPU.User}, {"sys", v.CPU.Sys}, {"wait", v.CPU.Wait}, {"memory", v.Memory.Percent}, {"swap", v.Swap.Percent}} {
		if p.value != "" {
			parts = append(parts, fmt.Sprintf("%s %s%%", p.name, p.value))
		}
	}
	if seconds, err := strconv.ParseInt(string(v.Uptime.Seconds), 10, 64); err == nil {
		parts = append(parts, "up "+span(time.Duration(seconds)*time.Second))
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

func conditionProcesses(out io.Writer, c *deployer.Condition) {
	if len(c.Processes) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "PROCESS\tSTATE\tUPTIME\tCPU\tMEMORY\n")
	for _, p := range c.Processes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f%%\t%s (%.1f%%)\n", p.Name, p.State, span(time.Duration(p.Uptime)*time.Second), p.CPU, Size(int64(p.Memory)<<10), p.Percent)
	}
	_ = table.Flush() // as all output here
}

func conditionDisks(out io.Writer, c *deployer.Condition) {
	if len(c.Disks) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "DISK\tSIZE\tUSE\tMOUNTED\n")
	for _, d := range c.Disks {
		mounted := "-"
		if d.Mounted != nil {
			mounted = map[bool]string{true: "yes", false: "no"}[*d.Mounted]
		}
		use := string(d.Use)
		if d.Since != nil {
			use += " since " + moment(*d.Since)
		}
		if d.Why != "" {
			use += ": " + d.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", d.CID, Size(int64(d.Size)<<20), use, mounted)
	}
	_ = table.Flush()
}

func conditionCertificates(out io.Writer, c *deployer.Condition) {
	if len(c.Certificates) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "CERTIFICATE\tSUBJECT\tFOR\tEXPIRES\n")
	for _, cert := range c.Certificates {
		left := fmt.Sprintf("%d days left", cert.DaysLeft)
		switch {
		case cert.DaysLeft < 0:
			left = "expired"
		case cert.DaysLeft == 1:
			left = "1 day left"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s (%s)\n", cert.What, orDash(cert.Subject), orDash(strings.Join(cert.Names, ", ")), cert.NotAfter.Format(time.DateOnly), left)
	}
	_ = table.Flush()
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

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// span is a length of time in its two largest units.
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

// JSONValue prints a value as one line of JSON.
func JSONValue(out io.Writer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
