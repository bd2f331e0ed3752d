package ui

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/deployment"
	"bootstrap/deployment/page"
)

// PlanOfDeployment returns the plan of a deployment with several instances in words: a row
// for each group whose instances do the same and for each instance that differs, the
// reasons, the order in which they change, and how much of each group serves.
func PlanOfDeployment(p *deployment.Plan) page.Plan {
	words := page.Plan{
		Deployment: p.Deployment, Instances: len(p.Rows), Same: p.Count(deployment.Keep), Columns: planColumns(),
		Create: p.Count(deployment.Create), Change: p.Count(deployment.Change), Delete: p.Count(deployment.Delete),
		Scripts: len(p.PostDeploy)+len(p.DNSRecords) > 0,
	}
	sets := p.Sets()
	starred := false
	for _, s := range sets {
		words.Rows = append(words.Rows, page.Row{Action: string(s.Rows[0].Action), Cells: setCells(s)})
		starred = starred || strings.Contains(setName(s), "*")
	}
	if starred {
		words.Notes = append(words.Notes, "* is the bootstrap instance of its group")
	}
	words.Notes = append(append(words.Notes, goneDisks(p)...), planWarnings(p)...)
	if !p.Nothing() {
		words.Manifest = planDiff(p)
		words.Why, words.Order, words.Service = planReasons(p, sets), instanceOrder(p), serviceLines(p)
	}
	return words
}

// DeploymentPlan prints the plan of a deployment with several instances.
func DeploymentPlan(out *Writer, p *deployment.Plan) {
	words := PlanOfDeployment(p)
	table := NewTable(out, words.Columns...).
		Yield(eachDown, 16).Yield("PLAN", 20).Yield(eachDown, 0).Yield("ADDRESS", 15).Yield("PLAN", 12)
	for _, row := range words.Rows {
		table.Row(row.Cells...)
	}
	table.Print()
	for _, note := range words.Notes {
		fmt.Fprintln(out, note)
	}
	if words.Nothing() {
		fmt.Fprintf(out, "\n%s\n", noChanges("No changes", words.Same))
		return
	}
	for _, part := range partsOf(words) {
		fmt.Fprintf(out, "\n%s:\n", part.title)
		for i, line := range part.lines {
			if part.numbered {
				line = fmt.Sprintf("%d  %s", i+1, line)
			}
			Say(out, "  "+line)
		}
	}
	for _, t := range templatesOf(p) {
		writeTemplates(out, t.title, t.view)
	}
}

// DeploymentMarkdown prints the plan of a deployment with several instances in GitHub's
// markdown.
func DeploymentMarkdown(out *Writer, p *deployment.Plan) {
	m, words := markdown{out}, PlanOfDeployment(p)
	fmt.Fprintf(out, "## Plan for %s\n\n", m.text(words.Deployment))
	if words.Nothing() {
		fmt.Fprintf(out, "%s.\n", noChanges("There is nothing to do", words.Same))
		return
	}
	line := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(out, "| %s ", m.text(cell))
		}
		fmt.Fprintln(out, "|")
	}
	line([]string{"instances", "az", "address", "plan", "each is down for"})
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, row := range words.Rows {
		line(row.Cells)
	}
	for _, note := range words.Notes {
		fmt.Fprintf(out, "\n%s\n", m.text(note))
	}
	for _, part := range partsOf(words) {
		fmt.Fprintf(out, "\n### %s\n\n", part.title)
		for i, line := range part.lines {
			mark := "-"
			if part.numbered {
				mark = fmt.Sprintf("%d.", i+1)
			}
			fmt.Fprintf(out, "%s %s\n", mark, m.text(line))
		}
	}
	for _, t := range templatesOf(p) {
		m.templates(t.title, t.view)
	}
}

// noChanges says how many instances are up to date, if the plan is about any that does not
// change.
func noChanges(text string, same int) string {
	if same == 0 {
		return text
	}
	return text + ": " + are(same, "instance") + " up to date"
}

// planPart is a list of lines below the table of a plan.
type planPart struct {
	title    string
	numbered bool
	lines    []string
}

// partsOf returns the lists of a plan that are not empty.
func partsOf(p page.Plan) []planPart {
	return slices.DeleteFunc([]planPart{{"Why", false, p.Why}, {"Manifest", false, p.Manifest}, {"Order", true, p.Order}, {"Service", false, p.Service}},
		func(part planPart) bool { return len(part.lines) == 0 })
}

// eachDown is the heading of the steps during which an instance does not serve.
const eachDown = "EACH IS DOWN FOR"

// planColumns are the headings of the plan of a deployment.
func planColumns() []string { return []string{"INSTANCES", "AZ", "ADDRESS", "PLAN", eachDown} }

// setCells returns the cells of instances that do the same.
func setCells(s deployment.Set) []string {
	row := s.Rows[0]
	var zones, addresses []string
	for _, r := range s.Rows {
		if r.Zone != "" && !slices.Contains(zones, r.Zone) {
			zones = append(zones, r.Zone)
		}
		addresses = append(addresses, sortedValues(r.Addresses)...)
	}
	slices.Sort(zones)
	return []string{setName(s), dash(strings.Join(zones, ", ")), dash(shortList(addresses)), setPlan(s), dash(strings.Join(row.Down, ", "))}
}

// mostListed is how many names or addresses of a set are listed.
const mostListed = 4

// shortList returns a list for a cell of a table. A long list is shortened to its first
// items.
func shortList(list []string) string {
	if len(list) > mostListed {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:mostListed-1], ", "), len(list)-mostListed+1)
	}
	return strings.Join(list, ", ")
}

// setName returns the names of instances: web (3) for all of a group, web/0*, or web/1,
// web/2.
func setName(s deployment.Set) string {
	if s.Whole {
		return fmt.Sprintf("%s (%d)", s.Group, len(s.Rows))
	}
	var names []string
	for _, row := range s.Rows {
		name := row.Name
		if row.Bootstrap {
			name += "*"
		}
		names = append(names, name)
	}
	return shortList(names)
}

// setPlan describes the action of the plan for a set of instances.
func setPlan(s deployment.Set) string {
	row := s.Rows[0]
	switch row.Action {
	case deployment.Delete:
		text := "delete: " + row.Why
		switch row.Disk {
		case deployment.DiskDeleted:
			text += "; disk deleted"
		case deployment.DiskOrphaned:
			text += "; disk becomes an orphan, kept until deleted"
		}
		return text
	case deployment.Keep:
		if row.Why != "" {
			return "no changes: " + row.Why
		}
		return "no changes"
	case deployment.Ignored:
		return "ignored"
	case deployment.Leave:
		return "not selected"
	case deployment.Unreachable:
		return "unreachable"
	}
	var changes []string
	for _, c := range row.Changes {
		changes = append(changes, string(c.Action)+" "+c.What)
	}
	return joinChanges(changes)
}

// planReasons returns the reasons of the changes, and the actions that are done once for
// several instances.
func planReasons(p *deployment.Plan, sets []deployment.Set) []string {
	var lines []string
	for _, s := range sets {
		action := s.Rows[0].Action
		if action != deployment.Change && action != deployment.Create {
			continue
		}
		for _, c := range s.Lines() {
			if action == deployment.Create && c.What != plan.Variables {
				continue // a new instance has no other reason
			}
			lines = append(lines, setName(s)+": "+changeLine(c))
		}
	}
	for _, s := range p.Shared {
		lines = append(lines, fmt.Sprintf("once for %s: %s", shortList(s.Instances), changeLine(s.Line)))
	}
	return lines
}

// planDiff returns the differences of the manifest and the last applied one, each with the
// instances that have it, unless these are all that change.
func planDiff(p *deployment.Plan) []string {
	var texts []string
	about, changed := map[string][]string{}, 0
	for _, row := range p.Rows {
		if len(row.Diff) > 0 {
			changed++
		}
		for _, text := range row.Diff {
			if about[text] == nil {
				texts = append(texts, text)
			}
			about[text] = append(about[text], row.Name)
		}
	}
	var lines []string
	for _, text := range texts {
		if len(about[text]) < changed {
			text = shortList(about[text]) + ": " + text
		}
		lines = append(lines, text)
	}
	return lines
}

// templates are the rendered files that differ in the same way on some instances.
type templates struct {
	title string
	view  plan.View
}

// templatesOf returns the rendered files that a plan has compared.
func templatesOf(p *deployment.Plan) []templates {
	var list []templates
	var names [][]string
	for _, row := range p.Rows {
		if row.Templates == nil && row.TemplatesNote == "" {
			continue
		}
		i := slices.IndexFunc(list, func(t templates) bool {
			return slices.Equal(t.view.Templates, row.Templates) && t.view.TemplatesNote == row.TemplatesNote
		})
		if i < 0 {
			i = len(list)
			list = append(list, templates{view: plan.View{Templates: row.Templates, TemplatesNote: row.TemplatesNote}})
			names = append(names, nil)
		}
		names[i] = append(names[i], row.Name)
		list[i].title = "Templates of " + shortList(names[i])
	}
	return list
}

// planWarnings returns the warnings about instances, each with those that it is about.
func planWarnings(p *deployment.Plan) []string {
	var texts []string
	about := map[string][]string{}
	for _, row := range p.Rows {
		for _, text := range row.Warnings {
			if about[text] == nil {
				texts = append(texts, text)
			}
			about[text] = append(about[text], row.Name)
		}
	}
	var lines []string
	for _, text := range texts {
		lines = append(lines, fmt.Sprintf("Warning: %s: %s", shortList(about[text]), text))
	}
	return lines
}

// changeLine returns a change with its reasons.
func changeLine(c plan.Line) string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Action, c.What, c.Name))
	if len(c.Why) > 0 {
		text += ": " + strings.Join(c.Why, "; ")
	}
	return text
}

// serviceLines describes how much of each group serves during the plan, and which instances
// do not run now.
func serviceLines(p *deployment.Plan) []string {
	var lines []string
	for _, s := range p.Groups {
		text := ""
		switch {
		case s.MostDown == 0:
			continue
		case s.Instances == 0:
			text = "ends: all instances are deleted"
		case !s.Down:
			text = fmt.Sprintf("serves all the time: not more than %d of %d instances down", s.MostDown, s.Running+s.NotRunning)
		default:
			text = "is down until its instances run again"
			if s.Downtime > 0 {
				text = "is down for about " + duration(s.Downtime)
			}
		}
		lines = append(append(lines, s.Group+": "+text), notRunning(p, s.Group)...)
	}
	return lines
}

// notRunning names the instances of a group that do not run, by the reason.
func notRunning(p *deployment.Plan, group string) []string {
	var reasons []string
	names := map[string][]string{}
	for _, row := range p.Rows {
		if of, _, _ := strings.Cut(row.Name, "/"); of != group || row.NotRunning == "" {
			continue
		}
		if names[row.NotRunning] == nil {
			reasons = append(reasons, row.NotRunning)
		}
		names[row.NotRunning] = append(names[row.NotRunning], row.Name)
	}
	var lines []string
	for _, reason := range reasons {
		lines = append(lines, fmt.Sprintf("%s %s not run now: %s", shortList(names[reason]), doOrDoes(len(names[reason])), reason))
	}
	return lines
}

// doOrDoes is the verb for n things.
func doOrDoes(n int) string {
	if n == 1 {
		return "does"
	}
	return "do"
}
