package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/report"
)

// Succeeded prints that the command has succeeded, and the result for the VM or the instances
// if they were changed; o may be nil.
func Succeeded(out *Writer, o *report.Outcome, next []string) {
	if text := outcome(o); text != "" {
		fmt.Fprintln(out, text)
		for _, command := range next {
			fmt.Fprintln(out, "Next: "+command)
		}
	}
	fmt.Fprintln(out)
	out.paint(green, "Succeeded")
	fmt.Fprintln(out)
}

// outcome describes what a run has changed; empty: nothing.
func outcome(o *report.Outcome) string {
	switch {
	case o == nil || !o.Changed:
		return ""
	case o.Instances != nil:
		return instancesText(o.Instances) + "; the run took " + duration(o.Seconds)
	case o.Detached:
		return "The VM is deleted, its disk and addresses are kept; the run took " + duration(o.Seconds)
	case o.VM == "":
		return ""
	}
	text := fmt.Sprintf("VM '%s'; the run took %s", o.VM, duration(o.Seconds))
	if o.Down {
		return text + "; its service is stopped"
	}
	if *o.Downtime > 0 {
		text += "; its service was down for " + duration(*o.Downtime)
	}
	return text
}

// mostAddresses is how many instances the end of a run lists with their addresses.
const mostAddresses = 10

// instancesText lists the addresses of instances, and counts what has happened to them.
func instancesText(of *report.Instances) string {
	var at, counts []string
	for _, in := range of.At[:min(len(of.At), mostAddresses)] {
		at = append(at, in.Instance+" "+in.Address)
	}
	if more := len(of.At) - mostAddresses; more > 0 {
		at = append(at, fmt.Sprintf("and %d more", more))
	}
	for _, c := range []struct {
		n    int
		what string
	}{{of.Created, "created"}, {of.Changed, "changed"}, {of.Deleted, "deleted"}, {of.Unchanged, "unchanged"}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	text := "Instances: " + strings.Join(counts, ", ")
	if len(at) > 0 {
		text = "Addresses: " + strings.Join(at, ", ") + "\n" + text
	}
	return text
}
