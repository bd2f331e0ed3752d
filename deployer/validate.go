package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// CheckPackages checks the packages of the instance group's jobs, as far as
// their releases, by name, are there, as a deploy does. The stemcell is nil if
// it is not known.
func CheckPackages(m *manifest.Manifest, releases map[string]*artifact.Release, stemcell *artifact.Stemcell) []document.Problem {
	c := templateCheck{manifest: m, releases: releases}
	known := *m
	known.Group.Jobs = c.known(m.Group.Jobs)
	r := &run{manifest: &known, releases: releases, stemcell: stemcell}
	var problems []document.Problem
	order, err := r.packageOrder()
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			problems = append(problems, document.Problem{Pos: m.Group.Pos, Message: err.Error()})
		}
	}
	if stemcell == nil {
		return problems
	}
	for _, p := range r.foreign(order) {
		problem := document.Problem{Pos: m.Group.Pos, Message: r.whyForeign(p)}
		for i, ref := range m.Releases {
			if ref.Name == p.release {
				problem.Pos, problem.Path = ref.Pos, fmt.Sprintf("releases[%d]", i)
			}
		}
		problems = append(problems, problem)
	}
	return problems
}

// CheckTemplates renders the templates of the manifest's jobs, and of its CPI's,
// as far as their releases, by name, are there, and keeps nothing of it. It
// returns what a deploy would fail with as problems, and in doubtful what may
// only fail because a value or a job is not known yet. An error means that no
// template could be rendered.
func CheckTemplates(ctx context.Context, engine *templates.Engine, m *manifest.Manifest, releases map[string]*artifact.Release) (problems []document.Problem, doubtful []string, err error) {
	c := templateCheck{manifest: m, releases: releases, engine: engine}
	known := *m
	known.Group.Jobs = c.known(m.Group.Jobs)
	r := &run{manifest: &known, releases: releases}
	address, dynamic := m.Address()
	// A stand-in has at least the form of an address; this one is nobody's.
	r.address = cmp.Or(address, "192.0.2.1")
	c.refs, c.partly, c.guessed = known.Group.Jobs, len(known.Group.Jobs) < len(m.Group.Jobs), dynamic
	if err := c.render(ctx, r.templateJobs()); err != nil {
		return nil, nil, err
	}
	c.refs, c.guessed = c.known(m.CPI.Templates), false
	c.partly = len(c.refs) < len(m.CPI.Templates)
	if err := c.render(ctx, c.cpiJobs()); err != nil {
		return nil, nil, err
	}
	return c.problems, c.doubtful, nil
}

// templateCheck collects what rendering tells.
type templateCheck struct {
	manifest *manifest.Manifest
	releases map[string]*artifact.Release
	engine   *templates.Engine
	refs     []manifest.JobRef // what is rendered
	partly   bool              // other jobs, with links, are not known
	guessed  bool              // the address is
	problems []document.Problem
	doubtful []string
}

// known are the jobs whose releases are there and have them.
func (c *templateCheck) known(refs []manifest.JobRef) []manifest.JobRef {
	return slices.DeleteFunc(slices.Clone(refs), func(ref manifest.JobRef) bool {
		rel := c.releases[ref.Release]
		return rel == nil || rel.Job(ref.Name) == nil
	})
}

// cpiJobs are the jobs of the CPI with what their templates may ask for.
func (c *templateCheck) cpiJobs() []templates.Job {
	props := maps.Clone(c.manifest.CPI.Properties)
	if g := c.manifest.CPI.Registry; g != nil && props != nil {
		port := cmp.Or(g.Port, 6901)
		props["registry"] = map[string]any{
			"host": g.Host, "port": port, "username": g.Username, "password": cmp.Or(g.Password, "generated"),
			"endpoint": "http://" + net.JoinHostPort(g.Host, fmt.Sprint(port)),
		}
	}
	var jobs []templates.Job
	for _, ref := range c.refs {
		rel := c.releases[ref.Release]
		jobs = append(jobs, templates.Job{Job: rel.Job(ref.Name), Context: templates.Context{
			Bootstrap: true, Deployment: c.manifest.Name, ReleaseVersion: rel.Version,
			ClusterProperties: props, PropertiesPath: "cloud_provider.properties",
		}})
	}
	return jobs
}

// render renders into a folder of its own, which it removes.
func (c *templateCheck) render(ctx context.Context, jobs []templates.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "bootstrap-validate-")
	if err != nil {
		return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
	}
	defer os.RemoveAll(dir)
	err = c.engine.Render(ctx, jobs, dir)
	var failures *templates.Failures
	if !errors.As(err, &failures) {
		return err
	}
	for _, f := range *failures {
		c.note(f)
	}
	return nil
}

// note judges one template that failed.
func (c *templateCheck) note(f *templates.Failure) {
	message := strings.Join(strings.Fields(f.Error()), " ")
	missing := len(f.Properties) > 0
	switch {
	case f.Link && c.partly, !missing && !f.Link && (c.guessed || len(c.manifest.Generated) > 0):
		c.doubtful = append(c.doubtful, message)
		return
	}
	problem := document.Problem{Pos: c.manifest.Group.Pos, Message: message}
	for _, ref := range c.refs {
		if ref.Name == f.Job && ref.Release == f.Release {
			problem.Pos, problem.Path = ref.Pos, ref.Path
		}
	}
	c.problems = append(c.problems, problem)
}
