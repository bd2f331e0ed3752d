package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/plan"
)

// Markdown prints a plan in GitHub's markdown, for a comment on a pull request.
func Markdown(out *Writer, deployment string, p plan.View) {
	m := markdown{out}
	fmt.Fprintf(out, "## Plan for %s\n\n", m.text(deployment))
	if p.Nothing() {
		fmt.Fprintln(out, "There is nothing to do.")
	} else {
		m.changes(p.Changes)
	}
	if len(p.Diff) > 0 {
		lines := make([]string, len(p.Diff))
		for i, line := range p.Diff {
			if rest, changed := strings.CutPrefix(line, "~"); changed {
				line = "!" + rest // has a colour in a block of differences
			}
			lines[i] = line
		}
		fmt.Fprint(out, "\n### Manifest\n\n")
		m.diff(strings.Join(lines, "\n"))
	}
	m.templates("Templates", p)
	switch {
	case p.Nothing():
	case len(p.Outage()) > 0:
		fmt.Fprintf(out, "\nThe service is down for: %s\n", m.text(downtime(p)))
	case !p.Creates():
		fmt.Fprint(out, "\nNo jobs are stopped.\n")
	}
	if len(p.Warnings) > 0 {
		fmt.Fprint(out, "\n### Warnings\n\n")
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(out, "- %s\n", m.text(w))
	}
}

// markdown writes the parts of a page.
type markdown struct{ out *Writer }

// templates writes how rendered files differ from those of the running jobs.
func (m markdown) templates(title string, p plan.View) {
	if p.Templates != nil || p.TemplatesNote != "" {
		fmt.Fprint(m.out, "\n### "+m.text(title)+"\n\n"+m.text(strings.TrimSuffix(templatesNote(p, ""), "\n"))+"\n")
	}
	for _, f := range p.Templates {
		fmt.Fprintf(m.out, "\n%s\n", m.text(fileLine(f)))
		if f.Diff != "" {
			fmt.Fprintln(m.out)
			m.diff(f.Diff)
		}
	}
}

// changes writes the table of changes, without what is kept unchanged.
func (m markdown) changes(list []plan.Line) {
	fmt.Fprint(m.out, "| action | what | why |\n|---|---|---|\n")
	for _, c := range list {
		action := string(c.Action)
		switch actions[c.Action] {
		case faint:
			if c.Action == plan.Keep {
				continue
			}
		case red: // it destroys something
			action = "**" + action + "**"
		}
		fmt.Fprintf(m.out, "| %s | %s | %s |\n", action, m.text(strings.TrimSpace(c.What+" "+c.Name)), m.text(strings.Join(c.Why, "; ")))
	}
}

// diff writes a block of differences, with a fence that no line of it contains.
func (m markdown) diff(text string) {
	text = m.out.clean(text, maxMessage)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m.out, "%sdiff\n%s\n%s\n", fence, text, fence)
}

// text returns a text as one line in which no character has a special meaning. It removes
// secrets first, because an escaped secret is not recognized.
func (m markdown) text(text string) string {
	text = strings.ReplaceAll(m.out.clean(text, maxMessage), "\n", " ")
	var b strings.Builder
	for _, c := range text {
		if strings.ContainsRune("\\`|*_<>[]~#&$", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	// A URL does not become a link, and its escaped <redacted> is not replaced again.
	return strings.ReplaceAll(b.String(), "://", `:\//`)
}
