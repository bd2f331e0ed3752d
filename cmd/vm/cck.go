package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/state/file"
)

// cck has the flags of the command cck.
type cck struct {
	c            *cli.Console
	opts         deployer.Options
	ask          cli.Asking
	report, auto bool
	resolutions  []string
}

func newCCK(c *cli.Console) *cobra.Command {
	k := &cck{c: c}
	cmd := &cobra.Command{
		Use:     "cck MANIFEST",
		Aliases: []string{"cloud-check"},
		Short:   "Find problems of VMs and disks, and resolve them by choice",
		Long: `Cck looks for agents that do not answer, VMs and disks that are missing, disks that are
not mounted where they should be, and jobs that do not run, and offers the resolutions
of a Director. On a terminal it asks for each problem. Without a terminal, or with
--report or --yes, it only lists them. --auto recreates missing VMs and ignores other
problems. --resolution applies the first of the given ones that a problem has.

The resolutions are ignore, reboot_vm, restart_jobs, recreate_vm,
recreate_vm_without_wait, delete_vm, delete_vm_reference, delete_disk_reference and
reattach_disk. Those that create a VM or attach a disk deploy the instance as the
manifest says; if data would be lost by that, it asks, or needs --yes.

The exit code is 0 if there is no problem or all were resolved, and 2 if some are
left.`,
		Example: "  bootstrap cck manifest.yml\n  bootstrap cck manifest.yml --report --json\n  bootstrap cck cluster.yml --instance web/1 --resolution recreate_vm",
		Args:    cli.OneManifest,
		RunE:    k.run,
	}
	f := cmd.Flags()
	c.DeployFlags(f, &k.opts)
	cli.InstanceFlag(f, &k.opts.Options)
	k.ask.Flags(f)
	c.TimingsFlag(f)
	f.BoolVar(&k.report, "report", false, "only list the problems")
	f.BoolVar(&k.auto, "auto", false, "apply the resolutions that a Director chooses")
	f.StringArrayVar(&k.resolutions, "resolution", nil, "apply the resolution `NAME` where a problem has it; repeatable")
	return cmd
}

func (k *cck) run(cmd *cobra.Command, args []string) error {
	k.c.Start()
	k.opts.Manifest = args[0]
	for _, name := range k.resolutions {
		if !slices.Contains(report.Resolutions(), report.Resolution(name)) {
			return cli.WrongUsage(cmd, fmt.Errorf("--resolution %s: there is no such resolution; see bootstrap cck --help", name))
		}
	}
	several, err := instances.Select(cmd.Context(), k.c, &k.opts)
	if err != nil {
		return err
	}
	return k.c.Deployment(cmd.Context(), k.opts, func(ctx context.Context, opts deployer.Options) error {
		if several == nil {
			if err := opts.RefuseIgnored(); err != nil {
				return err
			}
			return instances.SendingNames(k.c, cmd, func(ctx context.Context, opts deployer.Options) error {
				one := inspected{opts: k.options(opts)}
				var err error
				if one.problems, err = deployer.Inspect(ctx, one.opts); err != nil {
					return err
				}
				return k.resolve(ctx, []inspected{one})
			})(ctx, opts)
		}
		unlock, err := instances.Lock(ctx, several.Record.Dir(), opts)
		if err != nil {
			return err
		}
		defer unlock()
		if err := several.Reload(opts); err != nil {
			return err
		}
		each, err := k.lookAtAll(ctx, several, opts)
		if err != nil || len(each) == 0 {
			return err
		}
		if err := k.resolve(ctx, each); err != nil {
			return err
		}
		all := &instances.Command{Console: k.c, Cobra: cmd, Dir: several.Record.Dir()}
		return deployment.SendNames(ctx, all.Options(opts), several.Record)
	})
}

// skipped returns why an instance is not inspected; empty: it is inspected. The error says
// that its state cannot be read or was lost.
func skipped(ctx context.Context, in *record.Instance, one deployer.Options) (why string, err error) {
	switch found, err := file.Exists(one.StateFile); {
	case err != nil:
		return "", err
	case in.Ignored:
		return "is ignored", nil
	case in.Going != "":
		return "is to be deleted", nil
	case !found:
		if err := one.FindLost(ctx, one.StateFile); err != nil {
			return "", err
		}
		return "is not deployed yet", nil
	}
	return "", nil
}

// inspected is an instance with its problems.
type inspected struct {
	opts     deployer.Options
	problems []report.Problem
}

// inspections is the number of instances that are looked at at the same time: each has a CPI.
const inspections = 8

// lookAtAll looks at the selected instances. One that cannot be inspected is a problem, unless
// a document of the store is not believed: then the error says so.
func (k *cck) lookAtAll(ctx context.Context, several *instances.Selection, opts deployer.Options) ([]inspected, error) {
	each := make([]inspected, len(several.List))
	left, doubts := make([]string, len(several.List)), make([]error, len(several.List))
	err := guard.Each(ctx, inspections, len(each), func(i int) {
		one, err := several.Options(opts, i)
		if err == nil {
			left[i], err = skipped(ctx, several.List[i], one)
		}
		if err == nil && left[i] == "" {
			each[i].opts = k.options(one) // reports only warnings, with the name of the instance
			each[i].problems, err = deployer.Inspect(ctx, each[i].opts)
			each[i].opts.Report = k.part(opts.Report)
		}
		if isDoubt(err) {
			doubts[i] = fmt.Errorf("%s: %w", several.List[i].Name(), err)
		}
		if err != nil {
			each[i].problems = append(each[i].problems, report.Problem{
				Instance: several.List[i].Name(), Type: report.NotInspected, Description: "Cannot inspect it: " + err.Error(),
				Resolutions: []report.Resolution{report.Ignore}, Auto: report.Ignore,
			})
		}
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, cli.Stopped()
	}
	if err := errors.Join(doubts...); err != nil {
		return nil, err
	}
	var looked []inspected
	for i, why := range left {
		if why != "" {
			k.c.Say(report.Info, several.List[i].Name()+" "+why+": not inspected")
			continue
		}
		looked = append(looked, each[i])
	}
	return looked, nil
}

// options returns the options for a part of the command.
func (k *cck) options(opts deployer.Options) deployer.Options {
	opts.Report, opts.Confirm = k.part(opts.Report), k.confirm()
	return opts
}

// resolve lists the problems of instances, and resolves them.
func (k *cck) resolve(ctx context.Context, each []inspected) error {
	var list []ui.CloudProblem
	var of []deployer.Options
	for _, one := range each {
		for _, p := range one.problems {
			list, of = append(list, ui.CloudProblem{Problem: p}), append(of, one.opts)
		}
	}
	if len(list) == 0 {
		k.c.Say(report.Info, "There are no problems")
		return nil
	}
	if !k.c.JSON() {
		k.c.Print(func(out *ui.Writer) { ui.CloudProblems(out, list) })
	}
	var errs []error
	left := 0
	for i := range list {
		p := &list[i]
		var err error
		if p.Resolution, err = k.choose(ctx, p.Problem); err != nil {
			return err
		}
		if p.Resolution != "" && p.Resolution != report.Ignore {
			if err := deployer.Resolve(ctx, of[i], p.Problem, p.Resolution); err != nil {
				p.Error = err.Error()
				errs = append(errs, fmt.Errorf("%s: %s: %w", p.Instance, p.Resolution, err))
			}
			p.Resolved = p.Error == ""
		}
		if !p.Resolved {
			left++
		}
	}
	switch {
	case k.c.JSON():
		ui.PrintAll(k.c.Lines(), "cloud_problem", list)
	case slices.ContainsFunc(list, func(p ui.CloudProblem) bool { return p.Resolution != "" }):
		k.c.Print(func(out *ui.Writer) { ui.CloudProblems(out, list) })
	}
	switch {
	case len(errs) > 0:
		return errors.Join(errs...)
	case left > 0:
		return &exit.ChangesError{}
	}
	return nil
}

// part returns a function that passes on the events of a part of the command, except its
// end, which readers would take for the end of the command.
func (k *cck) part(show func(report.Event)) func(report.Event) {
	return func(e report.Event) {
		if e.Kind != report.Ended {
			show(e)
		}
	}
}

// choose returns the resolution for a problem, by the flags or from the person at the
// terminal; empty: none.
func (k *cck) choose(ctx context.Context, p report.Problem) (report.Resolution, error) {
	switch {
	case k.report:
		return "", nil
	case len(k.resolutions) > 0:
		for _, name := range k.resolutions {
			if slices.Contains(p.Resolutions, report.Resolution(name)) {
				return report.Resolution(name), nil
			}
		}
		return report.Ignore, nil
	case k.auto:
		return p.Auto, nil
	}
	if k.c.Confirm(k.ask) == nil {
		return "", nil
	}
	d := k.c.Dialogue()
	if d == nil {
		return "", nil
	}
	defer d.Close()
	var names []string
	d.Show(func(out *ui.Writer) {
		fmt.Fprintf(out, "\n%s\n", p.Description)
		for i, r := range p.Resolutions {
			fmt.Fprintf(out, "  %d  %s (%s)\n", i+1, r.Words(), r)
			names = append(names, string(r))
		}
	})
	name, err := d.Choose(ctx, names)
	switch {
	case ctx.Err() != nil:
		return "", cli.Stopped()
	case errors.Is(err, io.EOF):
		return report.Ignore, nil
	}
	return report.Resolution(name), err
}

// confirm returns the function that asks before data is lost; nil: every answer is yes.
// The person has already chosen the resolution.
func (k *cck) confirm() func(context.Context, deployer.Question) (bool, error) {
	ask := k.c.Confirm(k.ask)
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, q deployer.Question) (bool, error) {
		if !q.Data {
			return true, nil
		}
		return ask(ctx, q)
	}
}
