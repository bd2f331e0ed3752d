package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/deployer/observe"
	"bootstrap/deployment"
	"bootstrap/deployment/order"
)

// are returns a number of things with its verb: "1 instance is", "3 instances are".
func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// sortedValues returns the values of a map, sorted by their keys.
func sortedValues(m map[string]string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[key])
	}
	return list
}

// instanceOrder describes the order of a plan, one line for each part.
func instanceOrder(p *deployment.Plan) []string {
	var lines []string
	if c := p.Compile; c != nil {
		lines = append(lines, "compile "+count(len(c.Packages), "package")+" on "+count(c.VMs, "compilation VM"))
	}
	if len(p.Gone) > 0 {
		lines = append(lines, "delete "+strings.Join(p.Gone, ", "))
	}
	if n := len(p.Create); n > 0 {
		lines = append(lines, "create the VMs of "+count(n, "instance")+", which get their jobs afterwards")
	}
	var names []string
	if len(p.DNSRecords) > 0 {
		names = append(names, "send DNS records to "+shortList(p.DNSRecords))
	}
	if !p.DNSLater {
		lines = append(lines, names...)
	}
	for _, stage := range p.Stages {
		var groups []string
		for _, turn := range stage {
			groups = append(groups, groupOrder(turn))
		}
		lines = append(lines, strings.Join(groups, "; at the same time "))
	}
	if p.DNSLater {
		lines = append(lines, names...)
	}
	if len(p.PostDeploy) > 0 {
		lines = append(lines, "post-deploy of "+strings.Join(p.PostDeploy, ", "))
	}
	return lines
}

// groupOrder describes the order in which the instances of a group change.
func groupOrder(t order.Turn) string {
	var parts []string
	for _, lot := range t.Lots {
		part := ""
		if len(lot.Canaries) > 0 {
			part = "first " + strings.Join(lot.Canaries, ", ")
		}
		if len(lot.Rest) > 0 {
			if part != "" {
				part += ", then "
			}
			part += strings.Join(lot.Rest, ", ")
			if len(lot.Rest) > 1 {
				part += fmt.Sprintf(" (up to %d at the same time)", lot.Width)
			}
		}
		if lot.Down {
			part += fmt.Sprintf(", which %s not run", doOrDoes(len(lot.Canaries)+len(lot.Rest)))
		}
		parts = append(parts, part)
	}
	if len(t.Delete.IDs) > 0 {
		part := "delete " + strings.Join(t.Delete.IDs, ", ")
		if t.Delete.Last {
			parts = append(parts, part)
		} else {
			parts = slices.Insert(parts, 0, part)
		}
	}
	return t.Group + ": " + strings.Join(parts, "; then ")
}

// InstanceQuestion returns the lines that ask a person before a deployment changes.
func InstanceQuestion(p *deployment.Plan) []string {
	var parts []string
	for _, c := range []struct {
		action deployment.Action
		text   string
	}{{deployment.Create, "created"}, {deployment.Change, "changed"}, {deployment.Delete, deletedHow(p)}} {
		if n := p.Count(c.action); n > 0 {
			parts = append(parts, fmt.Sprintf("%d will be %s", n, c.text))
		}
	}
	var lines []string
	if len(parts) > 0 {
		lines = append(lines, fmt.Sprintf("Of the instances of %s, %s", p.Deployment, strings.Join(parts, ", ")))
	}
	return append(lines, goneDisks(p)...)
}

// deletedHow describes the deletion of instances for a question.
func deletedHow(p *deployment.Plan) string {
	disks := func(become deployment.Fate) bool {
		return slices.ContainsFunc(p.Rows, func(r deployment.Row) bool { return r.Disk == become })
	}
	switch {
	case disks(deployment.DiskOrphaned):
		return "DELETED, and their disks become orphans"
	case disks(deployment.DiskDeleted):
		return "DELETED with their disks"
	}
	return "DELETED"
}

// goneDisks has a line for each disk that a plan deletes.
func goneDisks(p *deployment.Plan) []string {
	var lines []string
	for _, d := range p.Disks {
		what := "disk"
		if d.Use == observe.DiskOrphan {
			what = "orphaned disk"
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s) of %s is deleted with its data", what, d.CID, mebibytes(d.Size), d.Instance))
	}
	return lines
}

// DeploymentJSON returns a function that prints events as JSON.
func DeploymentJSON(out *Lines) func(deployment.Event) {
	return func(e deployment.Event) {
		e.Time = e.Time.UTC()
		out.Print("instance", e)
	}
}

// DeploymentPlain returns a function that prints a line when an instance starts and when
// it ends.
func DeploymentPlain(out *Writer) func(deployment.Event) {
	return func(e deployment.Event) {
		name := e.Instance + ":"
		if e.Command != "" {
			name += " " + string(e.Command)
		}
		switch e.Status {
		case deployment.Stepped:
			return
		case deployment.Creating:
			fmt.Fprintf(out, "%s: its VM is being created\n", e.Instance)
		case deployment.Created:
			fmt.Fprintf(out, "%s: VM created after %s\n", e.Instance, duration(e.Seconds))
		case deployment.Started:
			what := "started"
			if e.Canary {
				what = "started as a canary"
			}
			fmt.Fprintf(out, "%s %s\n", name, what)
		default:
			line := fmt.Sprintf("%s %s after %s", name, e.Status, duration(e.Seconds))
			if e.Error != "" {
				line += ": " + out.clean(e.Error, maxMessage)
			}
			fmt.Fprintln(out, out.sentences(line, 0))
			if e.Status == deployment.Failed && e.Log != "" {
				fmt.Fprintf(out, "  its output: %s\n", e.Log)
			}
		}
		_ = out.Flush() // The method finish reports the error.
	}
}
