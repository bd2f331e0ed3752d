package ui

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
)

// writePlan prints a plan: a line for each object with its action and the reasons, then
// the differences of the manifest, the steps during which the service is down, and the
// warnings that were not printed before; printed reports whether a warning was.
func writePlan(out *Writer, p plan.View, printed func(string) bool) {
	out.paint(bold, "Plan")
	fmt.Fprintln(out)
	for _, c := range p.Changes {
		fmt.Fprint(out, "  ")
		out.paint(actions[c.Action], string(c.Action))
		fmt.Fprintf(out, "%*s ", 16-len(c.Action), "")
		line := c.What
		if c.Name != "" {
			line += " " + c.Name
		}
		if len(c.Why) > 0 {
			line += ": " + strings.Join(c.Why, "; ")
		}
		fmt.Fprintln(out, out.sentences(out.clean(line, maxMessage), 19))
	}
	writeDiff(out, p.Diff)
	writeTemplates(out, "Templates", p)
	switch {
	case p.Nothing():
	case len(p.Outage()) > 0:
		fmt.Fprintln(out, "\n"+out.sentences("The service is down for: "+downtime(p), 0))
	case !p.Creates():
		fmt.Fprintln(out, "\nNo jobs are stopped.")
	}
	for _, w := range p.Warnings {
		isReason := slices.ContainsFunc(p.Changes, func(c plan.Line) bool { return slices.Contains(c.Why, w) })
		if !printed(w) && !isReason {
			Warn(out, w)
		}
	}
}

// writeDiff prints the differences between the manifest and the last applied one.
func writeDiff(out *Writer, diff []string) {
	if len(diff) == 0 {
		return
	}
	fmt.Fprintln(out)
	out.paint(bold, "Manifest")
	fmt.Fprintln(out)
	for _, d := range diff {
		fmt.Fprintln(out, "  "+d)
	}
}

// downtime returns the steps during which the service is down, and how long they will
// take, if earlier runs have measured all of them.
func downtime(p plan.View) string {
	text := strings.Join(words(p.Outage()), ", ")
	switch p.OfRuns {
	case 0:
		return text
	case 1:
		return text + "; about " + duration(p.Downtime) + ", as in an earlier deploy"
	}
	return fmt.Sprintf("%s; about %s, as in %d earlier deploys", text, duration(p.Downtime), p.OfRuns)
}

// writeTemplates prints the differences between rendered files and those of the running
// jobs.
func writeTemplates(out *Writer, title string, p plan.View) {
	if p.Templates == nil && p.TemplatesNote == "" {
		return
	}
	fmt.Fprintln(out)
	out.paint(bold, title)
	fmt.Fprintln(out)
	fmt.Fprint(out, templatesNote(p, "  "))
	for _, f := range p.Templates {
		fmt.Fprintln(out, out.clean("  "+fileLine(f), maxMessage))
		for line := range strings.SplitSeq(f.Diff, "\n") {
			if line == "" {
				continue // there is no difference: even an empty line begins with a sign
			}
			fmt.Fprint(out, "    ")
			out.paint(signs[line[0]], line+"\n")
		}
	}
}

// templatesNote returns the text before the list of files.
func templatesNote(p plan.View, indent string) (text string) {
	switch {
	case p.Templates == nil:
		return indent + "Not compared: " + p.TemplatesNote + "\n"
	case p.TemplatesNote != "":
		text = indent + "Note: " + p.TemplatesNote + "\n"
	}
	if len(p.Templates) == 0 {
		text += indent + "No rendered file differs.\n"
	}
	return text
}

// fileLine returns the line of a rendered file that differs.
func fileLine(f plan.File) string {
	text := f.Job + "/" + f.Path + ": " + string(f.Change)
	if f.Mode != "" {
		text += ", mode " + f.Mode
	}
	if f.Hidden != "" {
		text += ", " + f.Hidden
	}
	return text
}

// signs are the styles of the lines of a difference, by their first byte.
var signs = map[byte]style{'-': red, '+': green, '@': cyan}

// actions are the styles of a plan's actions: destroying actions stand out.
var actions = map[plan.Action]style{
	plan.Create:  green,
	plan.Reserve: green,
	plan.Attach:  green,
	plan.Start:   green,
	plan.Update:  yellow,
	plan.Migrate: yellow,
	plan.Orphan:  yellow,
	plan.Replace: red,
	plan.Remove:  red,
	plan.Release: red,
	plan.Keep:    faint,
	plan.Note:    faint,
	plan.Hold:    faint,
}

// WriteSteps prints the steps of a plan in order, numbered, with the steps of a group on
// one line. rows has the expected times, in the same order.
func WriteSteps(out *Writer, steps []plan.Step, rows []plan.Row) {
	var lines []stepLine
	for i, s := range steps {
		seconds := 0.0
		if i < len(rows) {
			seconds = rows[i].Seconds
		}
		switch {
		case s.Kind.Quiet():
		case s.Of == "":
			lines = append(lines, stepLine{text: s.String(), down: s.Down, seconds: seconds})
		default:
			if i == 0 || steps[i-1].Of != s.Of {
				lines = append(lines, stepLine{text: plan.Step{Kind: s.Of, Name: s.Name}.String(), down: s.Down})
			}
			lines[len(lines)-1].add(s.Kind.Words(), seconds)
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(out, "\nSteps")
	}
	for i, l := range lines {
		fmt.Fprintln(out, out.clean(fmt.Sprintf("  %2d  %s", i+1, l), maxMessage))
	}
}

// stepLine is a line for a step, or for a group of steps.
type stepLine struct {
	text    string
	parts   []string // the steps of the group
	down    bool
	seconds float64
}

func (l *stepLine) add(part string, seconds float64) {
	if l.seconds += seconds; seconds >= 0.05 {
		part += " " + duration(seconds)
	}
	l.parts = append(l.parts, part)
}

func (l stepLine) String() string {
	text := l.text
	if len(l.parts) > 0 {
		text += ": " + strings.Join(l.parts, ", ")
	}
	switch {
	case !l.down:
		return text
	case l.seconds < 0.05:
		return text + " (the service is down)"
	}
	return text + " (the service is down for " + duration(l.seconds) + ")"
}

// Ask prints the question whether to destroy the objects in what.
func Ask(out *Writer, what []string) {
	fmt.Fprintln(out)
	for _, w := range what {
		fmt.Fprintln(out, "  "+w)
	}
	fmt.Fprint(out, "Go on? [yN]: ")
}

// words returns kinds of steps as people read them.
func words(kinds []string) []string {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = plan.Kind(k).Words()
	}
	return list
}
