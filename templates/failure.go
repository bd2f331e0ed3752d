package templates

import (
	"fmt"
	"strings"
)

// Failure is one template that could not be rendered.
type Failure struct {
	Release, Job string
	Template     string   // path below templates/, or "monit"; empty: all of the job
	Line         int      // line of the template; 0: unknown
	Expression   string   // the code in that line
	Message      string   // what is wrong
	Properties   []string // properties without a value; setting one of them is enough
	Link         bool     // a link is missing
	Advice       string   // where the manifest can set the properties; empty: unknown
	Doubtful     bool     // an unknown value may be the only cause; see Context.Unknown
}

// Failures lists all templates of one Render that failed.
type Failures []*Failure

func (f *Failures) Error() string {
	if len(*f) == 1 {
		return "cannot render " + (*f)[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cannot render %d templates:", len(*f))
	for _, failure := range *f {
		b.WriteString("\n  " + strings.ReplaceAll(failure.Error(), "\n", "\n  "))
	}
	return b.String()
}

func (f *Failures) Name() string { return "template" }

// Redact removes secrets from Ruby's message, which may contain any value. The other
// fields of a failure contain only names.
func (f *Failures) Redact(hide func(string) string) {
	for _, failure := range *f {
		if len(failure.Properties) == 0 && !failure.Link {
			failure.Message = hide(failure.Message)
		}
	}
}

// place names the template with its job and release.
func (f *Failure) place() string {
	if f.Template == "" {
		return fmt.Sprintf("job '%s' of release '%s'", f.Job, f.Release)
	}
	return fmt.Sprintf("template '%s' of job '%s' of release '%s'", f.Template, f.Job, f.Release)
}

func (f *Failure) Error() string {
	text := f.place()
	if f.Line > 0 {
		text += fmt.Sprintf(", line %d", f.Line)
	}
	if f.Expression != "" {
		text += ", in " + f.Expression
	}
	text += ": " + f.Message
	if f.Advice != "" {
		text += ": " + f.Advice
	}
	return text
}

// fill sets the fields from the driver's report. text is the content of the template.
func (f *Failure) fill(job *Job, text []byte, e *rubyError, embedded bool) {
	f.Line, f.Message, f.Properties = e.Line, e.Message, e.Properties
	f.Expression = expression(text, e.Line)
	switch {
	case len(e.Properties) > 0 && e.Owner != nil:
		f.Message = e.Owner.String() + " has no value for property " + quoted(e.Properties)
		f.Advice = ownerAdvice(job, e.Owner, e.Properties)
	case len(e.Properties) > 0:
		f.Message = "property " + quoted(e.Properties) + " has no value"
		f.Advice = advice(job, e.Properties)
	case e.Link != "":
		f.Message, f.Link = "there is no link '"+e.Link+"'", true
		f.Advice = linkAdvice(job, e.Link)
	case e.Class != "" && e.Class != "RuntimeError" && e.Class != "SyntaxError":
		f.Message += " (" + e.Class + ")"
		if embedded {
			f.Advice = foreign(e.Class)
		}
	}
}

// foreign explains errors of templates that need more than the embedded Ruby contains.
func foreign(class string) string {
	switch {
	case class == "LoadError":
		return "the embedded Ruby has no such library: use --ruby PATH"
	case strings.HasPrefix(class, "Errno::"):
		return "the embedded Ruby cannot access this machine: use --ruby PATH"
	}
	return ""
}

// expression returns the only ERB tag of a line, or the whole line.
func expression(text []byte, line int) string {
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	found := strings.TrimSpace(lines[line-1])
	if from, to := strings.Index(found, "<%"), strings.Index(found, "%>"); strings.Count(found, "<%") == 1 && from < to {
		found = found[from : to+len("%>")]
	}
	const most = 120
	if runes := []rune(strings.ToValidUTF8(found, "?")); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return strings.ToValidUTF8(found, "?")
}

func quoted(names []string) string {
	return "'" + strings.Join(names, "' or '") + "'"
}

// linkAdvice says why a link is missing and where the manifest can give it.
func linkAdvice(job *Job, name string) string {
	why, ok := job.unlinked[name]
	if !ok {
		return "the job's spec does not consume it, so the manifest cannot give it"
	}
	return why + ": give it at " + job.consumesAt(name)
}
