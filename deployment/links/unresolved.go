package links

import (
	"cmp"
	"fmt"
	"strings"

	"bootstrap/internal/failure"
)

// Unresolved is the error for all links of a deployment that cannot be connected.
type Unresolved struct {
	Deployment string
	Problems   []Problem
}

func (e *Unresolved) Name() string { return "links-unresolved" }

func (e *Unresolved) ExitCode() failure.Code { return failure.Manifest }

// Problem is a link that cannot be connected, with the reason.
type Problem struct {
	Consumer   End
	Why        string
	Candidates []End // providers of a link of its type
}

// Error returns all problems, one paragraph each. For each candidate, it has the line of
// the manifest that would choose it.
func (e *Unresolved) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot connect the links of the deployment %q:", e.Deployment)
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n- %s", p.text(p.Consumer))
	}
	return b.String()
}

// Text returns the problem without the place of the job.
func (p *Problem) Text() string {
	of := p.Consumer
	of.Place = ""
	return p.text(of)
}

// text returns the problem, with the line of the manifest that chooses each candidate.
func (p *Problem) text(of End) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", of, p.Why)
	for _, c := range p.Candidates {
		fmt.Fprintf(&b, "\n    %s; to choose it: %s", c.provides(of.Deployment), p.line(c))
	}
	return b.String()
}

// line returns what to write in the manifest to choose a candidate.
func (p *Problem) line(c End) string {
	if c.Deployment != p.Consumer.Deployment {
		return fmt.Sprintf("consumes: {%s: {from: %s, deployment: %s}}", p.Consumer.Name, cmp.Or(c.As, c.Name), c.Deployment)
	}
	same, group := 0, 0
	for _, other := range p.Candidates {
		if cmp.Or(other.As, other.Name) == cmp.Or(c.As, c.Name) {
			same++
			if other.Group == c.Group {
				group++
			}
		}
	}
	if same < 2 {
		return fmt.Sprintf("consumes: {%s: {from: %s}}", p.Consumer.Name, cmp.Or(c.As, c.Name))
	}
	as := c.Group + "-" + c.Name
	if group > 1 {
		as = c.Group + "-" + c.Job + "-" + c.Name
	}
	return fmt.Sprintf("provides: {%s: {as: %s}} in that job, and consumes: {%s: {from: %s}} here", c.Name, as, p.Consumer.Name, as)
}

// String describes the end for people: link, job, group and the place of the job in the
// manifest.
func (e End) String() string {
	text := fmt.Sprintf("link %q", e.Name)
	if e.Type != "" {
		text += fmt.Sprintf(" (type %q)", e.Type)
	}
	text += fmt.Sprintf(" of the job %q in the group %q", e.Job, e.Group)
	if e.Place != "" {
		text += " (" + e.Place + ")"
	}
	return text
}

// provides returns the sentence that a job or disk provides the link, without a full stop.
// deployment is that of the consumer.
func (e End) provides(deployment string) string {
	name := fmt.Sprintf("%q", e.Name)
	if e.As != "" {
		name = fmt.Sprintf("%q (%q in the job's spec)", e.As, e.Name)
	}
	if e.Job == "" {
		return fmt.Sprintf("the disk of the group %q provides it as %s", e.Group, name)
	}
	if e.Deployment != deployment {
		return fmt.Sprintf("the job %q in the group %q of the deployment %q provides it as %s", e.Job, e.Group, e.Deployment, name)
	}
	return fmt.Sprintf("the job %q in the group %q provides it as %s", e.Job, e.Group, name)
}
