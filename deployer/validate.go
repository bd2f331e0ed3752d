package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/monitored"
	"bootstrap/deployer/plan"
	"bootstrap/deployment/links"
	"bootstrap/internal/guard"
	"bootstrap/internal/scratch"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

// Findings are the results of Validate for a manifest without problems.
type Findings struct {
	Warnings  document.Problems
	Unchecked []Unchecked
}

// Unchecked is something that could not be checked, with the reason.
type Unchecked struct{ What, Why string }

// Validate reads a manifest and its files as Deploy does, but does not look at the VM. It
// fetches nothing, needs no state, and continues after a problem: the error is a
// *document.Problems with everything that Deploy would refuse.
func Validate(ctx context.Context, opts Options) (Findings, error) {
	opts.Inputs.Generate = document.Plan
	opts.Offline = true
	v := &validation{r: newRun(opts)}
	err := looked(v.r.execute(ctx, v.phases()))
	switch {
	case err != nil:
		return Findings{}, err
	case len(v.problems) > 0:
		problems := append(v.problems, v.warnings...)
		slices.SortStableFunc(problems, func(a, b document.Problem) int {
			return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), byPlace(a.Pos, b.Pos))
		})
		return Findings{}, &problems
	}
	return Findings{v.warnings, v.unchecked}, nil
}

func byPlace(a, b document.Position) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// validation collects the findings about a manifest.
type validation struct {
	r         *run
	problems  document.Problems
	warnings  document.Problems
	unchecked []Unchecked
	whole     *manifest.Manifest // the complete manifest: the run's own has only the jobs that were found
}

func (v *validation) skip(what string, why error) {
	v.unchecked = append(v.unchecked, Unchecked{what, why.Error()})
}

// take sorts the errors of a deploy into problems, at their own place or at pos, and
// things that could not be checked. It returns all other errors.
func (v *validation) take(pos document.Position, err error) error {
	if wrong, ok := errors.AsType[*links.Unresolved](err); ok {
		v.problems = append(v.problems, v.linkProblems(pos, wrong)...)
		return nil
	}
	list := unjoin(err)
	slices.SortStableFunc(list, func(a, b error) int { return byPlace(flawOf(a).Pos, flawOf(b).Pos) })
	for _, err := range list {
		var panicked *guard.Panic
		var unwritable *artifact.UnwritableError
		f := flawOf(err)
		switch {
		case errors.As(err, &panicked), errors.As(err, &unwritable):
			return err
		case errors.Is(err, artifact.ErrOffline):
			v.skip(f.What, artifact.ErrOffline)
		case f.Err != nil:
			v.problems = append(v.problems, document.Problem{Pos: f.Pos, Path: f.Path, Message: f.Error()})
		default:
			v.problems = append(v.problems, document.Problem{Pos: pos, Message: err.Error()})
		}
	}
	return nil
}

// linkProblems returns a problem for each link that cannot be connected, at its job, or
// else at pos.
func (v *validation) linkProblems(pos document.Position, wrong *links.Unresolved) document.Problems {
	groups := []manifest.InstanceGroup{v.whole.Group}
	if d := v.r.in.Deployment; d != nil {
		groups = nil
		for i := range d.Groups {
			groups = append(groups, d.Groups[i].Manifest.Group)
		}
	}
	var problems document.Problems
	for _, p := range wrong.Problems {
		problem := document.Problem{Pos: pos, Message: p.Text()}
		for _, g := range groups {
			for _, ref := range g.Jobs {
				if g.Name == p.Consumer.Group && ref.Name == p.Consumer.Job {
					problem.Pos, problem.Path = ref.Pos, ref.Path
				}
			}
		}
		problems = append(problems, problem)
	}
	return problems
}

// flawOf returns the flaw in err; zero if there is none.
func flawOf(err error) *instance.Flaw {
	if f, ok := errors.AsType[*instance.Flaw](err); ok {
		return f
	}
	return &instance.Flaw{}
}

// unjoin returns the errors that were joined into err.
func unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, unjoin(e)...)
	}
	return list
}

// chooseAddresses checks that the networks have addresses for the instance, without
// regard to other deployments.
func (v *validation) chooseAddresses(ctx context.Context) error {
	err := v.r.chooseAddresses(ctx)
	if refused, ok := errors.AsType[*network.Refused](err); ok {
		return v.take(v.r.in.Manifest.Group.Pos, refused)
	}
	return err
}

// startRuby prepares a Ruby that starts with the first template.
func (v *validation) startRuby(ctx context.Context) error {
	_, err := v.r.t.Env.Engine(ctx)
	return err
}

// fetchArtifacts reads the releases and the stemcell that this machine has.
func (v *validation) fetchArtifacts(ctx context.Context) error {
	m := v.r.in.Manifest
	v.whole, v.warnings = m, m.Warnings
	a, err := v.r.in.Fetch(ctx, m.Releases, slices.Concat(m.Group.Jobs, m.CPI.Templates), true)
	v.r.use(a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := v.take(m.Group.Pos, err); err != nil {
		return err
	}
	for i, ref := range m.Releases {
		rel := v.r.artifacts.Releases[ref.Name]
		if rel == nil {
			continue
		}
		for _, u := range rel.Unread {
			if u.Lacks {
				v.skip(fmt.Sprintf("package %s of release %s", u.Package, ref.Name), u.Why)
				continue
			}
			v.problems = append(v.problems, document.Problem{Pos: ref.Pos, Path: instance.ReleasePath(i), Message: u.Why.Error()})
		}
	}
	if len(m.Generated) > 0 {
		v.skip("values that depend on variables that deploy will generate", errors.New(strings.Join(m.Generated, ", ")))
	}
	return nil
}

// checkJobs checks that the releases contain the jobs. After it, the run only has the
// jobs that were found.
func (v *validation) checkJobs(context.Context) error {
	known := *v.whole
	known.Group.Jobs = keep(known.Group.Jobs, func(ref manifest.JobRef) bool { return v.r.artifacts.Releases[ref.Release] != nil })
	known.CPI.Templates = keep(known.CPI.Templates, func(ref manifest.JobRef) bool { return v.r.artifacts.Releases[ref.Release] != nil })
	v.r.in.Manifest = &known
	if err := v.take(known.Group.Pos, errors.Join(v.r.artifacts.CheckCPIJobs(), v.r.artifacts.CheckGroupJobs())); err != nil {
		return err
	}
	there := func(ref manifest.JobRef) bool { return v.r.artifacts.Releases[ref.Release].Job(ref.Name) != nil }
	known.Group.Jobs, known.CPI.Templates = keep(known.Group.Jobs, there), keep(known.CPI.Templates, there)
	if v.all() {
		v.warnings = slices.Concat(v.warnings, instance.UnknownProperties(&known, v.r.artifacts.Releases), instance.UnreadNames(&known, v.r.artifacts.Releases))
		return nil
	}
	for _, ref := range v.whole.Group.Jobs {
		if rel := v.r.artifacts.Releases[ref.Release]; rel == nil || rel.Job(ref.Name) == nil {
			v.skip("the properties of the jobs", fmt.Errorf("release %s could not be read", ref.Release))
			break
		}
	}
	return nil
}

func keep(refs []manifest.JobRef, wanted func(manifest.JobRef) bool) []manifest.JobRef {
	return slices.DeleteFunc(slices.Clone(refs), func(ref manifest.JobRef) bool { return !wanted(ref) })
}

// all reports whether every job of the instance group was found; allOfCPI does so for the
// jobs of the CPI.
func (v *validation) all() bool { return len(v.r.in.Manifest.Group.Jobs) == len(v.whole.Group.Jobs) }

func (v *validation) allOfCPI() bool {
	return len(v.r.in.Manifest.CPI.Templates) == len(v.whole.CPI.Templates)
}

// checkPackages checks the packages of the jobs that were found, and of the CPI.
func (v *validation) checkPackages(context.Context) error {
	errs := []error{v.r.artifacts.CheckPackages()}
	if first := v.r.in.Manifest.CPI.Templates; v.allOfCPI() && len(first) > 0 {
		if err := installation.Check(v.r.t.CPI.Jobs()); err != nil {
			errs = append(errs, &instance.Flaw{What: "the CPI", Pos: first[0].Pos, Path: first[0].Path, Err: err})
		}
	}
	return v.take(v.r.in.Manifest.Group.Pos, errors.Join(errs...))
}

// renderJobs renders the templates that can be rendered, and keeps no files.
func (v *validation) renderJobs(ctx context.Context) error {
	m := v.r.in.Manifest
	address, _ := m.Address()
	v.r.address = cmp.Or(address, anyAddress)
	if !v.r.t.CPI.Connected() {
		v.r.t.CPI.AssumeRegistry()
	}
	jobs, err := v.r.jobs.templateJobs()
	if err != nil {
		return v.take(m.Group.Pos, err)
	}
	on := runsOn(m.ResourcePool.Stemcell, v.r.artifacts.Stemcell)
	on.Partly = !v.all()
	unknown := v.unknown()
	for _, c := range []struct {
		templateCheck
		jobs []templates.Job
	}{
		{templateCheck{refs: m.Group.Jobs, partly: !v.all(), on: &on}, jobs},
		{templateCheck{refs: m.CPI.Templates, partly: !v.allOfCPI()}, installation.Templates(m.Name, v.r.t.CPI.Jobs(), v.r.t.CPI.Properties())},
	} {
		c.manifest = m
		for i := range c.jobs {
			c.jobs[i].Context.Unknown = unknown
		}
		err := c.render(ctx, v.r.t.Env, c.jobs)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.skip("the templates", err)
			return nil
		}
		for _, p := range c.problems {
			if p.Warning {
				v.warnings = append(v.warnings, p)
			} else {
				v.problems = append(v.problems, p)
			}
		}
		for _, d := range c.doubtful {
			v.skip("a template that needs a value which is not known yet", errors.New(d))
		}
	}
	return nil
}

// unknown returns the texts that stand for values which are not known yet: in the manifest of
// the instance, in those of the groups that provide links, and for its address.
func (v *validation) unknown() map[string]bool {
	texts := map[string]bool{anyAddress: true}
	maps.Copy(texts, v.r.in.Manifest.Unknown())
	if d := v.r.in.Deployment; d != nil {
		for i := range d.Groups {
			maps.Copy(texts, d.Groups[i].Manifest.Unknown())
		}
	}
	return texts
}

// checkTunnel reads the tunnel's key. A missing passphrase is no mistake in the manifest,
// and only the CPI knows whether the tunnel is needed.
func (v *validation) checkTunnel(context.Context) error {
	want := v.r.in.Manifest.CPI.SSHTunnel
	if want == nil || want.PrivateKey == "" {
		return nil
	}
	if err := tunnel.CheckLogin(v.r.t.CPI.TunnelConfig(want)); err != nil {
		v.skip("the key of cloud_provider.ssh_tunnel", err)
	}
	return nil
}

// checkNetwork checks whether an embedded VM can have its network. A program that this
// machine lacks is no mistake in the manifest.
func (v *validation) checkNetwork(ctx context.Context) error {
	if err := v.r.host.NewNetwork(ctx).Problem; err != nil {
		stops := plan.Reason{Cause: plan.StopsEarly, To: err.Error()}
		v.warnings = append(v.warnings, document.Problem{Pos: v.whole.Group.Pos, Message: stops.String(), Warning: true})
	}
	return ctx.Err()
}

// templateCheck collects the results of rendering.
type templateCheck struct {
	manifest *manifest.Manifest
	refs     []manifest.JobRef // names of the rendered jobs
	partly   bool              // true: some jobs are missing, which may provide links
	problems []document.Problem
	doubtful []string            // failures whose only cause may be an unknown value or job
	on       *monitored.Instance // where the jobs run; nil: on this machine, without monit
}

// render renders into a new folder, and removes it. An error means that no template could
// be rendered.
func (c *templateCheck) render(ctx context.Context, env *instance.Env, jobs []templates.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	folder, err := scratch.New("", "validate")
	if err != nil {
		return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
	}
	defer func() { _ = folder.Remove() }()
	err = env.Render(ctx, jobs, folder.Path)
	if err == nil && c.on != nil {
		c.problems = append(c.problems, findOldWays(folder.Path, c.on.OS, c.refs)...)
		return c.readMonit(folder.Path, jobs, env)
	}
	var failures *templates.Failures
	if !errors.As(err, &failures) {
		return err
	}
	if c.on != nil {
		if err := c.renderMonit(ctx, env, jobs); err != nil {
			return err
		}
	}
	for _, f := range *failures {
		c.addFailure(f)
	}
	return nil
}

// addFailure adds the failure of one template.
func (c *templateCheck) addFailure(f *templates.Failure) {
	message := strings.Join(strings.Fields(f.Error()), " ")
	if f.Doubtful || f.Link && c.partly {
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
