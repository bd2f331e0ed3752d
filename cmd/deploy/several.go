package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/page"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// several runs a command about a deployment with several instances.
type several struct {
	c      *cli.Console
	cmd    *cobra.Command
	opts   deployer.Options
	ask    cli.Asking
	dir    string               // folder of the record
	only   string               // names of the selected instances; empty: all
	read   *manifest.Deployment // set by plan
	saved  *deployment.Saved    // deploy: the plan to carry out; nil: any
	shown  planOutput           // plan: how the plan is printed and saved
	skip   bool                 // leave out unreachable instances
	failed bool                 // leave out instances that run

	earlier  earlier     // deploy, plan: the earlier deploy whose inputs are used
	goesBack *record.Run // the deploy of the previous version that runs or is planned; nil: it is another one

	recreates *record.Run        // the recreate that runs or is planned; nil: it is no recreate
	changes   *instances.Command // set by command
}

// severalOf returns the command about a deployment; nil if the options name one instance,
// or if the manifest describes only one. It opens the store of a team that they name.
func severalOf(c *cli.Console, cmd *cobra.Command, opts *deployer.Options, ask cli.Asking) (*several, error) {
	if strings.Contains(opts.Instance, "/") && !strings.Contains(opts.Instance, ",") {
		return nil, nil
	}
	c.NameTarget(opts) // for errors
	if err := c.OpenStateStore(cmd.Context(), opts); err != nil {
		return nil, err
	}
	dir, found := opts.RecordFolder(), false
	if isGiven(cmd) { // The present manifest is not used.
		found = record.Exists(dir)
	} else {
		dir, found = instances.Looks(cmd.Context(), &opts.Options)
	}
	if !found {
		return nil, nil
	}
	s := &several{c: c, cmd: cmd, opts: *opts, ask: ask, dir: dir, only: opts.Instance}
	s.opts.Instance = ""
	keepOldDisk(cmd, &s.opts)
	return s, nil
}

// keepOldDisk makes the old disk of a migration an orphan, as it is with a Director, unless
// the flag says something else.
func keepOldDisk(cmd *cobra.Command, opts *deployer.Options) {
	if f := cmd.Flags().Lookup("keep-old-disk"); f != nil && !f.Changed {
		opts.KeepOldDisk = true
	}
}

// command returns the command in the form that package instances takes.
func (s *several) command() *instances.Command {
	if s.changes == nil {
		s.changes = &instances.Command{Console: s.c, Cobra: s.cmd, Dir: s.dir}
	}
	return s.changes
}

// options returns the options of a run.
func (s *several) options(opts deployer.Options) deployment.Options {
	o := s.command().Options(opts)
	o.Only, o.OnlyFailed, o.KeepDisks = s.only, s.failed, s.cmd.Name() != "delete"
	return o
}

// plan plans the deployment, and prints the plan.
func (s *several) plan(ctx context.Context, opts deployer.Options, old *record.Record) (*deployment.Plan, *deployment.Draft, error) {
	defer instances.ShareRuby(ctx, s.c, &opts)()
	var p *deployment.Plan
	var draft *deployment.Draft
	if err := s.saved.CheckInputs(ctx, opts, old); err != nil {
		return nil, nil, err
	}
	s.continueRecreate(&opts, old)
	if s.saved != nil && s.saved.Plan != nil {
		opts.Canaries, opts.MaxInFlight = s.saved.Plan.Canaries, s.saved.Plan.MaxInFlight
	}
	opts.Inputs.Pipes = &document.Pipes{} // LinkNames reads all inputs once more
	opts.Inputs.LinkNames = deployment.LinkNames(opts, old, s.saved)
	err := deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) (err error) {
		s.read = of.Deployment
		if draft, err = deployment.Make(ctx, of, old, deployment.Recorded(old, opts.Home), s.saved, ""); err != nil {
			return err
		}
		p, err = deployment.MakePlan(ctx, s.options(opts), of.Deployment, draft, old.Deployed == nil)
		return err
	})
	if err == nil {
		err = s.saved.Check(p, draft)
	}
	if err != nil {
		return nil, nil, err
	}
	return p, draft, s.show(p)
}

// refused returns an error if a flag is only for one instance.
func (s *several) refused() error {
	for _, name := range []string{"adopt-from", "adopt-vm"} {
		if s.cmd.Flags().Changed(name) {
			return cli.WrongUsage(s.cmd, fmt.Errorf("--%s is for one instance: name it with --instance GROUP/INDEX", name))
		}
	}
	return nil
}

// planOutput is how a plan is printed, and the files that it is also written to.
type planOutput struct {
	format, out, html string
}

// show prints a plan.
func (s *several) show(p *deployment.Plan) error {
	for i := range p.Rows {
		for j, text := range p.Rows[i].Warnings {
			p.Rows[i].Warnings[j] = s.c.WithTarget(text)
		}
	}
	if events := s.c.Events(); events != nil {
		events.Print("instances", p)
	}
	switch {
	case s.c.JSON():
		s.c.PrintObject("instances", p)
	case s.shown.format == markdown:
		s.c.Print(func(out *ui.Writer) { ui.DeploymentMarkdown(out, p) })
	default:
		s.c.Print(func(out *ui.Writer) { ui.DeploymentPlan(out, p) })
	}
	if s.shown.html == "" {
		return nil
	}
	return page.Write(s.shown.html, ui.PlanOfDeployment(p), s.c.Redactor.Shown)
}

// runPlan plans a deployment and prints the plan.
func (s *several) runPlan(shown planOutput) error {
	if err := s.refused(); err != nil {
		return err
	}
	s.shown, s.opts.Inputs.Generate = shown, document.Plan
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		old, err := deployment.Load(s.dir, opts)
		if err == nil {
			err = s.useEarlier(ctx, &opts, old)
		}
		if err != nil {
			return err
		}
		p, draft, err := s.plan(ctx, opts, old)
		if err == nil {
			err = p.Refused(s.skip)
		}
		if err == nil && shown.out != "" {
			err = s.save(ctx, opts, p, draft)
		}
		if err == nil && !p.Nothing() {
			err = &exit.ChangesError{}
		}
		return err
	})
}

// save writes a plan for deploy --plan.
func (s *several) save(ctx context.Context, opts deployer.Options, p *deployment.Plan, draft *deployment.Draft) error {
	old, err := deployment.Load(s.dir, opts)
	if err != nil {
		return err
	}
	saved, err := p.Save(ctx, opts, old, draft)
	if err != nil {
		return err
	}
	return writePlan(s.shown.out, saved)
}

// deploy deploys all instances. saved is the path of a saved plan; empty: there is none.
func (s *several) deploy(saved string) (err error) {
	if err := s.refused(); err != nil {
		return err
	}
	if saved != "" && s.opts.Canaries+s.opts.MaxInFlight != "" {
		return cli.WrongUsage(s.cmd, errors.New("--plan and --canaries or --max-in-flight cannot be given together: a plan contains the flags that it was made with"))
	}
	if saved != "" {
		if s.saved, err = readSeveralPlan(saved); err != nil {
			return err
		}
		if len(s.saved.Plans) > 0 {
			s.opts.Asked = s.saved.Asked()
		}
	}
	s.opts.Inputs.Generate = document.Write
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		unlock, err := s.command().Lock(ctx, opts)
		if err != nil {
			return err
		}
		defer unlock()
		for range deployer.MostReplans {
			err = s.deployPlanned(ctx, opts)
			if _, taken := errors.AsType[*deployment.TakenError](err); !taken || s.saved != nil {
				break
			}
			opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Another deployment has reserved an address of the plan: this is the new plan"})
		}
		return err
	})
}

// deployPlanned plans the deployment, asks, and carries out the plan.
func (s *several) deployPlanned(ctx context.Context, opts deployer.Options) error {
	old, err := deployment.Load(s.dir, opts)
	if err == nil {
		err = s.command().Await(ctx, opts, old)
	}
	if err == nil {
		err = s.useEarlier(ctx, &opts, old)
	}
	var gone []string
	if err == nil {
		gone, err = deployer.DeleteWorkers(ctx, opts)
	}
	if err != nil {
		return err
	}
	p, draft, err := s.plan(ctx, opts, old)
	if err == nil {
		err = deployer.ForgetWorkers(ctx, s.read, gone)
	}
	if err != nil {
		return err
	}
	if err := p.Refused(s.skip); err != nil {
		return err
	}
	began := time.Now()
	if p.Nothing() {
		s.ended(p, began)
		if err := forgetRun(opts, s.dir); err != nil || s.only != "" || s.failed || s.skip {
			return err
		}
		if err := draft.Settle(); err != nil {
			return err
		}
		return s.keep(ctx, opts, draft, p)
	}
	if p.Count(deployment.Change)+p.Count(deployment.Delete) > 0 {
		if err := s.agreed(ctx, p, p.Count(deployment.Delete) > 0); err != nil {
			return err
		}
		began = time.Now()
	}
	if err := s.beginRecreate(ctx, &opts, draft.Record); err != nil {
		return err
	}
	if s.goesBack != nil {
		draft.Record.Run = s.goesBack
	}
	if err := s.run(ctx, opts, draft, p); err != nil {
		return err
	}
	s.ended(p, began)
	return s.keep(ctx, opts, draft, p)
}

// keep keeps the inputs of the deploy, and records the links that the deployment shares, after
// all instances were deployed.
func (s *several) keep(ctx context.Context, opts deployer.Options, draft *deployment.Draft, p *deployment.Plan) error {
	deployment.KeepInputs(ctx, opts, draft, p)
	return s.share(ctx, opts, draft.Record)
}

// share records the links that the deployment shares, after all instances were deployed.
func (s *several) share(ctx context.Context, opts deployer.Options, all *record.Record) error {
	opts.Report = func(report.Event) {}
	i := slices.IndexFunc(all.Instances, func(in *record.Instance) bool { return in.Going == "" })
	if i < 0 {
		return deployer.UnshareLinks(ctx, opts.Config, opts.Team, s.dir)
	}
	if record.Exists(s.dir) {
		opts.Deployment = s.read
		if err := opts.Select(all, all.Instances[i]); err != nil {
			return err
		}
	} else if err := deployer.UnshareLinks(ctx, opts.Config, opts.Team, s.dir); err != nil { // only one instance is left
		return err
	}
	return deployer.ShareLinks(ctx, opts)
}

// run carries out a plan.
func (s *several) run(ctx context.Context, opts deployer.Options, draft *deployment.Draft, p *deployment.Plan) error {
	defer instances.ShareRuby(ctx, s.c, &opts)()
	o := s.options(opts)
	_ = os.RemoveAll(o.Logs) // from an earlier run
	s.c.Changes.Several(opts.Home, s.dir, "")
	err := deployment.Run(ctx, o, draft, p, s.dir)
	if c := p.Compile; c != nil && err == nil {
		s.c.Changes.Several(opts.Home, s.dir, "compile", c.Packages...)
	}
	return err
}

// ended makes the end of the command report what a run has done.
func (s *several) ended(p *deployment.Plan, began time.Time) {
	s.c.SeveralEnded(&report.Outcome{Changed: !p.Nothing(), Seconds: time.Since(began).Seconds(), Instances: p.Result()})
}

// agreed asks a person before instances change. data is true if disks are deleted.
func (s *several) agreed(ctx context.Context, p *deployment.Plan, data bool) error {
	return cli.Agreed(ctx, s.c.Confirm(s.ask), deployer.Question{What: ui.InstanceQuestion(p), Data: data})
}

// deleteWorkers ends a delete without instances: it deletes compilation VMs that a killed run
// has left.
func (s *several) deleteWorkers(ctx context.Context, opts deployer.Options) error {
	count, err := opts.WorkersLeft(ctx)
	switch {
	case err != nil:
		return err
	case count > 0:
		_, err = deployer.DeleteWorkers(ctx, opts)
		return err
	case opts.SkipIfMissing:
		return nil
	}
	return fmt.Errorf("%w; with --skip-if-missing, delete succeeds if there is nothing to delete", &instance.NoInstancesError{Manifest: opts.Manifest, Dir: s.dir})
}

// delete deletes the selected instances of the record.
func (s *several) delete() error {
	if err := s.refused(); err != nil {
		return err
	}
	if err := instances.RefusePipes("delete several instances", s.opts); err != nil {
		return err
	}
	s.deleteOrphans()
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		old, err := deployment.Load(s.dir, opts)
		if err != nil {
			return err
		}
		if !old.Needed() {
			return s.deleteWorkers(ctx, opts)
		}
		unlock, err := s.command().Lock(ctx, opts)
		if err != nil {
			return err
		}
		defer unlock()
		if old, err = deployment.Load(s.dir, opts); err != nil { // Another run may have changed it before the lock.
			return err
		}
		if err := s.command().Await(ctx, opts, old); err != nil {
			return err
		}
		if _, err := deployer.DeleteWorkers(ctx, opts); err != nil {
			return err
		}
		list, unknown := old.Select(s.only)
		if unknown != "" {
			return &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(old.Instances), Dir: s.dir}
		}
		old.Run = nil
		for _, in := range list {
			if in.Ignored {
				return &instance.IgnoredError{Instance: in.Name()}
			}
		}
		o := s.options(opts)
		if err := o.CheckInputs(ctx, old, list); err != nil {
			return err
		}
		p := deployment.DeleteOf(old, list, opts.KeepDisk)
		if s.only == "" {
			list = slices.Concat(list, old.Former)
		}
		if err := p.FindSilent(ctx, o, old); err != nil {
			return err
		}
		if p.Disks, err = deployment.DisksOf(old, list, opts); err != nil {
			return err
		}
		if err := s.show(p); err != nil {
			return err
		}
		if err := p.Refused(false); err != nil {
			return err
		}
		if err := s.agreed(ctx, p, true); err != nil {
			return err
		}
		began := time.Now()
		err = s.run(ctx, opts, &deployment.Draft{Record: old}, p)
		if err == nil && s.only == "" && opts.OrphanedDisks {
			err = instances.DeleteKept(ctx, opts, old)
		}
		if err == nil && len(old.Instances) == 0 {
			err = errors.Join(deployer.UnshareLinks(ctx, opts.Config, opts.Team, s.dir), deployer.ForgetInputs(ctx, opts, s.dir))
		}
		if err == nil {
			s.ended(p, began)
		}
		return err
	})
}

// deleteOrphans makes a delete of all instances delete orphaned disks, too, unless a flag
// says something else.
func (s *several) deleteOrphans() {
	if f := s.cmd.Flags().Lookup("orphaned-disks"); !f.Changed {
		s.opts.OrphanedDisks = s.only == "" && !s.opts.KeepDisk
	}
}
