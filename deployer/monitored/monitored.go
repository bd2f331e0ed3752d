// Package monitored reads the monit files of rendered jobs: which processes the agent will
// report, and what the monit of stemcells would refuse.
package monitored

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/monitfile"
	"bootstrap/templates"
)

// group is the group of monit whose processes the agent starts, stops and reports.
const group = "vcap"

// jobs is the folder of the jobs on a VM.
const jobs = "/var/vcap/jobs/"

// Instance says where the rendered jobs will run.
type Instance struct {
	OS string // operating system of the stemcell; empty: unknown
	// Partly is true if the instance has further jobs, which are not known.
	Partly bool
	// Provides are jobs that the agent adds.
	Provides []string
}

// Found is what the monit files of an instance contain.
type Found struct {
	Processes []string  // names of the processes that the agent will report
	Mistakes  []Mistake // for which monit would not run
	Warnings  []Mistake // what monit accepts, and what is hardly meant
}

// Mistake is something wrong in the monit file of a job.
type Mistake struct {
	Job, Release string
	File         string // name of the rendered file in the job's folder
	Line         int    // line of it; 0: none
	Template     string // path of the template below the job's folder; empty: as File
	TemplateLine int    // line of the template; 0: unknown, or the same
	What         string
	Refused      bool // monit refuses the file
}

func (m Mistake) String() string {
	text := fmt.Sprintf("the file '%s' of job '%s' of release '%s'", m.File, m.Job, m.Release)
	if m.Refused {
		text = "monit refuses " + text
	}
	if m.Line > 0 {
		text += fmt.Sprintf(", line %d", m.Line)
	}
	switch {
	case m.Template != "" && m.TemplateLine > 0:
		text += fmt.Sprintf(" (%s, line %d)", m.Template, m.TemplateLine)
	case m.Template != "":
		text += fmt.Sprintf(" (made from %s)", m.Template)
	case m.TemplateLine > 0:
		text += fmt.Sprintf(" (line %d of the template)", m.TemplateLine)
	}
	return text + ": " + m.What
}

// A file is a monit file of a job.
type file struct {
	job      *artifact.Job
	name     string // in the job's folder
	source   string // path of the template
	rendered []byte
}

// place returns the mistake in a line of the file.
func (f *file) place(line int, what string) Mistake {
	m := Mistake{Job: f.job.Name, Release: f.job.Release, File: f.name, Line: line, What: what}
	if f.name != "monit" {
		m.Template = "templates/" + filepath.ToSlash(f.source)
	}
	m.TemplateLine = f.templateLine(line)
	if m.TemplateLine == line && m.Template == "" {
		m.TemplateLine = 0
	}
	return m
}

// templateLine returns the line of the template that became a line of the file; 0: unknown.
func (f *file) templateLine(line int) int {
	dir := f.job.Dir
	if f.name != "monit" {
		dir = filepath.Join(dir, "templates")
	}
	text, err := os.ReadFile(filepath.Join(dir, f.source))
	switch {
	case err != nil || line == 0:
		return 0
	case bytes.Equal(text, f.rendered):
		return line
	}
	lines := bytes.Split(f.rendered, []byte("\n"))
	if line > len(lines) {
		return 0
	}
	wanted, at := bytes.TrimSpace(lines[line-1]), 0
	for i, l := range bytes.Split(text, []byte("\n")) {
		if len(wanted) > 0 && bytes.Equal(bytes.TrimSpace(l), wanted) {
			if at > 0 {
				return 0 // it is not known which
			}
			at = i + 1
		}
	}
	return at
}

// Read reads the monit files of the jobs that were rendered below dir.
func Read(dir string, list []templates.Job, on Instance) (Found, error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b templates.Job) int { return strings.Compare(a.Name, b.Name) })
	var files []*file
	for _, job := range list {
		if job.LinksOnly {
			on.Partly = true
			continue
		}
		own, err := read(dir, job.Job)
		if err != nil {
			return Found{}, err
		}
		files = append(files, own...)
	}
	var found Found
	var checks []monitfile.Check
	by := map[string]*file{}
	for _, f := range files {
		if windows(f, on.OS) {
			continue
		}
		name := f.job.Name + "/" + f.name
		by[name] = f
		parsed, err := monitfile.Parse(name, f.rendered)
		if mistakes, ok := err.(monitfile.Mistakes); ok {
			on.Partly = true // what others depend on may be in the part that cannot be read
			for _, m := range mistakes {
				found.refused(f, m)
			}
		}
		checks = append(checks, parsed...)
	}
	for _, m := range monitfile.Conflicts(checks) {
		if !m.Missing || !on.Partly {
			found.refused(by[m.File], m)
		}
	}
	for i := range checks {
		found.judge(&checks[i], by[checks[i].File], list, on)
	}
	return found, nil
}

// read reads the monit files of a job, in the order in which the agent does.
func read(dir string, job *artifact.Job) ([]*file, error) {
	files := []*file{{job: job, name: "monit", source: "monit"}}
	for _, t := range job.Templates {
		if isMonit(t.Destination) && path.Clean(filepath.ToSlash(t.Destination)) != "monit" {
			files = append(files, &file{job: job, name: path.Clean(filepath.ToSlash(t.Destination)), source: t.Source})
		}
	}
	for _, f := range files {
		var err error
		f.rendered, err = os.ReadFile(filepath.Join(dir, job.Name, f.name))
		if err != nil && !(os.IsNotExist(err) && f.name == "monit") {
			return nil, fmt.Errorf("cannot read a rendered monit file: %w", err)
		}
	}
	return files, nil
}

// isMonit reports whether the agent reads a file of a job as a monit file.
func isMonit(destination string) bool {
	name := path.Clean(filepath.ToSlash(destination))
	return name == "monit" || strings.HasSuffix(name, ".monit") && path.Dir(name) == "."
}

// windows reports whether the file is for the agent on Windows, which has no monit and reads
// JSON.
func windows(f *file, osName string) bool {
	if osName != "" {
		return strings.HasPrefix(osName, "windows")
	}
	return bytes.HasPrefix(bytes.TrimSpace(f.rendered), []byte("{"))
}

// refused adds a mistake for which monit refuses the file.
func (found *Found) refused(f *file, m *monitfile.Mistake) {
	mistake := f.place(m.Line, m.What)
	mistake.Refused = true
	found.Mistakes = append(found.Mistakes, mistake)
}

// judge adds the process of a check, and what is wrong with it.
func (found *Found) judge(c *monitfile.Check, f *file, list []templates.Job, on Instance) {
	for _, st := range c.Unsupported {
		if st.Doubtful {
			found.Warnings = append(found.Warnings, f.place(st.Line, fmt.Sprintf("%q: %s", st.Text, st.Why)))
		}
	}
	if c.Kind != monitfile.KindProcess {
		return
	}
	if c.In(group) {
		found.Processes = append(found.Processes, c.Name)
	} else {
		found.Warnings = append(found.Warnings, f.place(c.Line, fmt.Sprintf("process %s is not in the group vcap: the agent neither starts, stops nor reports it; add: group vcap", c.Name)))
	}
	for _, p := range []struct {
		kind string
		monitfile.Program
	}{{"start", c.Start}, {"stop", c.Stop}} {
		if len(p.Argv) == 0 {
			continue
		}
		switch why := missing(p.Argv[0], list, on); {
		case why != "":
			found.Mistakes = append(found.Mistakes, f.place(p.Line, fmt.Sprintf("the %s program of process %s cannot be started: %s", p.kind, c.Name, why)))
		case !strings.HasPrefix(p.Argv[0], "/"):
			found.Warnings = append(found.Warnings, f.place(p.Line, fmt.Sprintf("the %s program of process %s is %q, which is no absolute path: monit looks into no folder for it", p.kind, c.Name, p.Argv[0])))
		}
	}
}

// missing returns why a program will not be on the VM; empty: it will be, or that is not
// known.
func missing(program string, list []templates.Job, on Instance) string {
	below, ok := strings.CutPrefix(program, jobs)
	name, file, inside := strings.Cut(below, "/")
	if !ok || !inside || !strings.HasPrefix(file, "bin/") || slices.Contains(on.Provides, name) {
		return ""
	}
	i := slices.IndexFunc(list, func(j templates.Job) bool { return j.Name == name })
	switch {
	case i < 0 && on.Partly:
		return ""
	case i < 0:
		return fmt.Sprintf("%q belongs to the job '%s', which the instance does not have", program, name)
	}
	for _, t := range list[i].Templates {
		if path.Clean(filepath.ToSlash(t.Destination)) == path.Clean(file) {
			return ""
		}
	}
	return fmt.Sprintf("no template of job '%s' makes %q", name, program)
}

// Only returns the jobs with no other templates than those of monit files.
func Only(list []templates.Job) []templates.Job {
	list = slices.Clone(list)
	for i := range list {
		job := *list[i].Job
		job.Templates = slices.DeleteFunc(slices.Clone(job.Templates), func(t artifact.Template) bool { return !isMonit(t.Destination) })
		list[i].Job = &job
	}
	return list
}
