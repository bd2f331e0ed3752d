package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
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
		Long: `Cck looks for agents that do not answer, VMs and disks that are missing, and disks that
are not mounted where they should be, and offers the resolutions of a Director. On a
terminal it asks for each problem. Without a terminal, or with --report, it only lists
them. With --auto it applies what a Director would: recreate_vm_without_wait for a
missing VM, and ignore for the others. With --resolution it applies the first of the
given ones that a problem has.

The resolutions are ignore, reboot_vm, recreate_vm, recreate_vm_without_wait, delete_vm,
delete_vm_reference, delete_disk_reference and reattach_disk. Those that create a VM or
attach a disk deploy the instance as the manifest says.

The exit code is 0 if there is no problem or all were resolved, and 2 if some are left.`,
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
			return k.check(ctx, []deployer.Options{opts})
		}
		unlock, err := instances.Lock(ctx, several.Record.Dir(), opts)
		if err != nil {
			return err
		}
		defer unlock()
		var each []deployer.Options
		for i, in := range several.List {
			one, skip, err := k.optionsOf(several.Record, in, opts)
			switch {
			case err != nil:
				return err
			case skip != "":
				k.c.Say(report.Info, several.List[i].Name()+" "+skip)
			default:
				each = append(each, one)
			}
		}
		return k.check(ctx, each)
	})
}

// optionsOf returns the options for an instance, or why it is not looked at.
func (k *cck) optionsOf(all *record.Record, in *record.Instance, opts deployer.Options) (one deployer.Options, skip string, err error) {
	opts.Instance = in.Name()
	opts.Select(all, in)
	found, err := file.Exists(opts.StateFile)
	switch {
	case in.Ignored:
		skip = "is ignored: not looked at"
	case in.Going != "":
		skip = "is to be deleted: not looked at"
	case err == nil && !found:
		skip = "is not deployed yet: not looked at"
	}
	return opts, skip, err
}

// check looks at instances, and resolves what it finds.
func (k *cck) check(ctx context.Context, each []deployer.Options) error {
	var list []ui.CloudProblem
	var of []deployer.Options
	for _, opts := range each {
		opts.Report, opts.Confirm = k.part(opts.Report), nil
		found, err := deployer.Inspect(ctx, opts)
		if err != nil {
			return err
		}
		for _, p := range found {
			list, of = append(list, ui.CloudProblem{Problem: p}), append(of, opts)
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

// part returns a function that passes on what a part of the command reports. The end of a
// part would be taken for that of the command.
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
	d := k.c.Dialogue()
	if d == nil {
		return "", nil
	}
	defer d.Close()
	d.Say("\n" + p.Description)
	for i, r := range p.Resolutions {
		d.Say(fmt.Sprintf("  %d: %s (%s)", i+1, r.Says(), r))
	}
	for {
		text, err := d.Line(ctx, "Resolution (1): ")
		switch {
		case ctx.Err() != nil:
			return "", cli.Stopped()
		case err != nil && !errors.Is(err, io.EOF):
			return "", err
		}
		text = strings.TrimSpace(text)
		if text == "" {
			return report.Ignore, nil
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(p.Resolutions) {
			return p.Resolutions[n-1], nil
		}
		if i := slices.Index(p.Resolutions, report.Resolution(text)); i >= 0 {
			return p.Resolutions[i], nil
		}
	}
}
