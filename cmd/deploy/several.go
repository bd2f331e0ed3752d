package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/templates"
)

// several runs a command about a deployment with several instances.
type several struct {
	c    *cli.Console
	cmd  *cobra.Command
	opts deployer.Options
	ask  cli.Asking
	dir  string // folder of the record
	ruby string // entry of the environment by which processes find the shared Ruby; empty: none
}

// severalOf returns the command about a deployment, and true; false if the options name
// one instance, or if the manifest describes only one.
func severalOf(c *cli.Console, cmd *cobra.Command, opts deployer.Options, ask cli.Asking) (*several, bool) {
	if opts.Instance != "" || opts.Manifest == "" || opts.Manifest == "-" {
		return nil, false
	}
	s := &several{c: c, cmd: cmd, opts: opts, ask: ask, dir: record.Dir(opts.Manifest)}
	return s, record.Exists(s.dir) || manifest.LooksSeveral(cmd.Context(), opts.Manifest, opts.Inputs)
}

// lock locks the deployment for a run.
func (s *several) lock(opts deployer.Options) (unlock func(), err error) {
	if opts.StateFile != "" {
		return nil, cli.WrongUsage(s.cmd, errors.New("--state (or BOOTSTRAP_STATE) cannot be used with several instances: their states are in the folder "+s.dir))
	}
	lock, err := file.LockDeployment(filepath.Join(s.dir, "lock"), opts.Holder)
	if err != nil {
		return nil, err
	}
	return func() {
		lock.Remove()
		_ = os.Remove(s.dir) // It stays if it contains a record.
	}, nil
}

// shareRuby makes this process and those of instances share one embedded Ruby. The caller
// calls end.
func (s *several) shareRuby(ctx context.Context, opts *deployer.Options) (end func()) {
	shared := templates.Share(ctx, templates.Config{Self: opts.Self, Cache: instance.RubyCache(opts.Home), Env: s.c.Env}, os.TempDir(), "/tmp")
	if s.ruby = shared.Entry(); s.ruby == "" {
		return shared.Close
	}
	getenv, path := opts.Getenv, strings.TrimPrefix(s.ruby, templates.SharedVariable+"=")
	opts.Getenv = func(name string) string {
		if name == templates.SharedVariable {
			return path
		}
		return getenv(name)
	}
	return shared.Close
}

// options returns the options of a run.
func (s *several) options(opts deployer.Options) deployment.Options {
	report := ui.DeploymentPlain(s.c.Writer(s.c.Out()))
	if s.c.JSON() {
		report = ui.DeploymentJSON(s.c.Redactor.Lines(s.c.Out()))
	}
	if events := s.c.Events(); events != nil {
		shown, kept := report, ui.DeploymentJSON(events)
		report = func(e deployment.Event) {
			shown(e)
			kept(e)
		}
	}
	flags := func(command string) []string {
		other, _, err := s.cmd.Root().Find([]string{command})
		if err != nil {
			return nil
		}
		list := s.c.ChildFlags(s.cmd, other)
		if command == "deploy" || command == "delete" {
			list = append(list, "--yes")
		}
		return list
	}
	advice := func(err error) string {
		_, hint := exit.Judge(err)
		if name := exit.Name(err); name != "" {
			hint = strings.TrimPrefix(fmt.Sprintf("%s; \"bootstrap explain %s\" says more", hint, name), "; ")
		}
		return hint
	}
	env := environment.ForMembers(s.c.Env)
	if s.ruby != "" {
		env = append(env, s.ruby)
	}
	return deployment.Options{
		Base: opts, Advice: advice,
		Manifest: opts.Manifest, Self: opts.Self, Env: env, Flags: flags,
		Stdin: opts.Inputs.Piped, Logs: record.LogsIn(s.dir), Report: report,
	}
}

// await waits for commands about instances that another run has started.
func (s *several) await(ctx context.Context, opts deployer.Options, r *record.Record) error {
	return deployment.Await(ctx, r, func(instance string, by error) {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("Waiting for another process that changes %s: %v", instance, by)})
	})
}

// plan plans the deployment, and prints the plan.
func (s *several) plan(ctx context.Context, opts deployer.Options, old *record.Record) (*deployment.Plan, *deployment.Draft, error) {
	defer s.shareRuby(ctx, &opts)()
	var p *deployment.Plan
	var draft *deployment.Draft
	err := deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) (err error) {
		if draft, err = deployment.Make(ctx, of, old, deployment.Recorded(old, opts.Home)); err != nil {
			return err
		}
		p, err = deployment.MakePlan(ctx, s.options(opts), of.Deployment, draft, old.Deployed == nil)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.show(p)
	return p, draft, nil
}

// refused returns an error if a flag is only for one instance.
func (s *several) refused() error {
	for _, name := range []string{"plan", "out", "html", "format", "previous", "templates", "adopt-from", "adopt-vm"} {
		if s.cmd.Flags().Changed(name) {
			return cli.WrongUsage(s.cmd, fmt.Errorf("--%s is for one instance: name it with --instance GROUP/INDEX", name))
		}
	}
	return nil
}

// show prints a plan.
func (s *several) show(p *deployment.Plan) {
	if s.c.JSON() {
		s.c.PrintObject("instances", p)
		return
	}
	s.c.Print(func(out *ui.Writer) { ui.DeploymentPlan(out, p) })
}

// runPlan plans a deployment and prints the plan.
func (s *several) runPlan() error {
	if err := s.refused(); err != nil {
		return err
	}
	s.opts.Inputs.Generate = document.Plan
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		old, err := deployment.Load(s.dir, opts)
		if err != nil {
			return err
		}
		p, _, err := s.plan(ctx, opts, old)
		if err == nil && !p.Nothing() {
			err = &exit.ChangesError{}
		}
		return err
	})
}

// deploy deploys all instances.
func (s *several) deploy() error {
	if err := s.refused(); err != nil {
		return err
	}
	s.opts.Inputs.Generate = document.Write
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		unlock, err := s.lock(opts)
		if err != nil {
			return err
		}
		defer unlock()
		old, err := deployment.Load(s.dir, opts)
		if err == nil {
			err = s.await(ctx, opts, old)
		}
		if err != nil {
			return err
		}
		p, draft, err := s.plan(ctx, opts, old)
		if err != nil {
			return err
		}
		if p.Nothing() {
			return draft.Settle()
		}
		if p.Count(deployment.Change)+p.Count(deployment.Delete) > 0 {
			if err := s.agreed(ctx, p, p.Count(deployment.Delete) > 0); err != nil {
				return err
			}
		}
		return s.run(ctx, opts, draft, p)
	})
}

// run carries out a plan.
func (s *several) run(ctx context.Context, opts deployer.Options, draft *deployment.Draft, p *deployment.Plan) error {
	defer s.shareRuby(ctx, &opts)()
	o := s.options(opts)
	_ = os.RemoveAll(o.Logs) // from an earlier run
	return deployment.Run(ctx, o, draft, p, s.dir)
}

// agreed asks a person before instances change. data is true if disks are deleted.
func (s *several) agreed(ctx context.Context, p *deployment.Plan, data bool) error {
	confirm := s.c.Confirm(s.ask)
	if confirm == nil {
		return nil
	}
	yes, err := confirm(ctx, deployer.Question{What: ui.InstanceQuestion(p), Data: data})
	if err == nil && !yes {
		err = &deployer.NotConfirmedError{}
	}
	return err
}

// delete deletes all instances of the record.
func (s *several) delete() error {
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		old, err := deployment.Load(s.dir, opts)
		if err != nil {
			return err
		}
		if len(old.Instances) == 0 {
			if opts.SkipIfMissing {
				return nil
			}
			return fmt.Errorf("the deployment of %s has no instances: there is nothing to delete", opts.Manifest)
		}
		unlock, err := s.lock(opts)
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.await(ctx, opts, old); err != nil {
			return err
		}
		p := &deployment.Plan{Deployment: old.Name}
		for _, in := range old.Instances {
			in.Going = "deployment deleted"
		}
		p.DeleteAll(old, opts.KeepDisk)
		s.show(p)
		if err := s.agreed(ctx, p, true); err != nil {
			return err
		}
		return s.run(ctx, opts, &deployment.Draft{Record: old}, p)
	})
}
