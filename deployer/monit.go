package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/monitored"
	"bootstrap/internal/scratch"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// anyAddress is a placeholder for an address that is not known yet. It belongs to no
// machine.
const anyAddress = "192.0.2.1"

// runsOn says where jobs will run, as far as monit files depend on it; read is the stemcell
// if it is on this machine.
func runsOn(stemcell manifest.StemcellRef, read *artifact.Stemcell) monitored.Instance {
	on := monitored.Instance{OS: osOf(stemcell, read)}
	if strings.HasPrefix(stemcell.URL, "embedded:") {
		on.Provides = []string{"bpm"}
	}
	return on
}

// monitProblems returns the mistakes in monit files, each at its job in the manifest.
func monitProblems(mistakes []monitored.Mistake, m *manifest.Manifest, warning bool, redact func(string) string) document.Problems {
	var problems document.Problems
	for _, mistake := range mistakes {
		mistake.What = redact(mistake.What)
		p := document.Problem{Pos: m.Group.Pos, Message: mistake.String(), Warning: warning}
		for _, ref := range m.Group.Jobs {
			if ref.Name == mistake.Job && ref.Release == mistake.Release {
				p.Pos, p.Path = ref.Pos, ref.Path
			}
		}
		problems = append(problems, p)
	}
	return problems
}

// renderMonit renders and reads only the monit files, of the jobs for which that works.
func (c *templateCheck) renderMonit(ctx context.Context, env *instance.Env, jobs []templates.Job) error {
	folder, err := scratch.New("", "monit")
	if err != nil {
		return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
	}
	defer func() { _ = folder.Remove() }()
	jobs = slices.Clone(jobs)
	err = env.Render(ctx, monitored.Only(jobs), folder.Path)
	var failures *templates.Failures
	if errors.As(err, &failures) {
		for _, f := range *failures {
			for i := range jobs {
				jobs[i].LinksOnly = jobs[i].LinksOnly || jobs[i].Name == f.Job
			}
		}
		if err = env.Render(ctx, monitored.Only(jobs), folder.Path); errors.As(err, &failures) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return c.readMonit(folder.Path, jobs, env)
}

// readMonit adds what is wrong with the monit files of the jobs rendered below dir.
func (c *templateCheck) readMonit(dir string, jobs []templates.Job, env *instance.Env) error {
	found, err := monitored.Read(dir, jobs, *c.on)
	if err != nil {
		return err
	}
	c.problems = append(c.problems, monitProblems(found.Mistakes, c.manifest, false, env.Redact)...)
	c.problems = append(c.problems, monitProblems(found.Warnings, c.manifest, true, env.Redact)...)
	return nil
}

// readMonit reads the monit files of the jobs rendered below dir, and refuses what monit
// refuses.
func (j *jobs) readMonit(dir string, jobs []templates.Job) error {
	found, err := monitored.Read(dir, jobs, runsOn(j.in.Manifest.ResourcePool.Stemcell, j.artifacts.Stemcell))
	if err != nil {
		return err
	}
	if problems := monitProblems(found.Mistakes, j.in.Manifest, false, j.rec.Env.Redact); len(problems) > 0 {
		return &problems
	}
	j.rendered.processes = found.Processes
	return nil
}
