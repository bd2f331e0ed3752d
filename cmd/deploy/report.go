package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/page"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state/file"
)

func newReport(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var html string
	var noPlan bool
	cmd := &cobra.Command{
		Use:   "report MANIFEST",
		Short: "Show what is deployed, what deploy would do, and how long it took",
		Long: `Report shows what is recorded of the deployment, what deploy would do now, how the
manifest has changed, and the timings of the last deploy on this machine. It changes
nothing. If the plan cannot be made, it says why and shows the rest; the exit code is
0.`,
		Example: "  bootstrap report manifest.yml\n  bootstrap report manifest.yml --html report.html",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			if c.ReportBy(func(report.Event) {}); !c.JSON() {
				printPlanAtEnd(c)
			}
			opts.Manifest = args[0]
			several, err := instances.Select(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several == nil {
					return reportOne(ctx, c, opts, html, noPlan)
				}
				return reportAll(ctx, c, several, opts, html, noPlan)
			})
		},
	}
	f := cmd.Flags()
	c.InputFlags(f, &opts.Inputs)
	cli.DatabaseFlag(f, &opts.Database)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.CPIFlags(f, &opts)
	cli.AgentFlags(f, &opts)
	cli.AnswerFlag(f, &opts)
	f.BoolVar(&noPlan, "no-plan", false, "show only what is recorded; ask neither the VM nor the CPI")
	f.StringVar(&html, "html", "", "write one page for browsers to this `FILE`")
	return cmd
}

// reportAll prints the reports of several instances, or writes a page with all of them.
func reportAll(ctx context.Context, c *cli.Console, of *instances.Selection, opts deployer.Options, html string, noPlan bool) error {
	var all []page.Instance
	for i, in := range of.List {
		one, err := of.Options(opts, i)
		if err != nil {
			return err
		}
		r, err := reportOf(ctx, c, one, noPlan)
		if err != nil {
			return fmt.Errorf("%s: %w", in.Name(), err)
		}
		c.Quiet()
		switch {
		case c.JSON():
			c.PrintObject("", r)
		case html == "":
			c.Print(func(out *ui.Writer) {
				ui.Heading(out, in.Name(), i == 0)
				ui.Report(out, r)
			})
		}
		all = append(all, page.Instance{Name: in.Name(), Report: r})
	}
	if html == "" {
		return nil
	}
	if err := page.WriteAll(html, of.Record.Name, all, c.Redactor.Shown); err != nil {
		return err
	}
	c.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Wrote " + html})
	return nil
}

// reportOne prints the report of one instance, or writes its page.
func reportOne(ctx context.Context, c *cli.Console, opts deployer.Options, html string, noPlan bool) error {
	r, err := reportOf(ctx, c, opts, noPlan)
	if err != nil {
		return err
	}
	if html != "" && r.PlanNote != "" && !noPlan {
		c.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: "what a deploy would do is not known: " + r.PlanNote})
	}
	c.Quiet()
	if html != "" {
		if err = page.Write(html, r, c.Redactor.Shown); err == nil {
			c.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Wrote " + html})
		}
	}
	switch {
	case c.JSON():
		c.PrintObject("", r)
	case html == "":
		c.Print(func(out *ui.Writer) { ui.Report(out, r) })
	}
	return err
}

// reportOf returns the report of one instance.
func reportOf(ctx context.Context, c *cli.Console, opts deployer.Options, noPlan bool) (*observe.Report, error) {
	missing, err := missingState(opts)
	switch {
	case err != nil:
		return nil, err
	case missing != nil && (noPlan || missing.Manifest != ""):
		return nil, missing
	case missing != nil: // reported before anything is downloaded
		c.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Nothing is deployed yet: there is no deployment state file at " + missing.Path})
	}
	var made deployer.PlanFile
	err = errors.New("--no-plan was given")
	if !noPlan {
		made, err = deployer.MakePlan(ctx, opts)
	}
	if ctx.Err() != nil {
		return nil, err
	}
	return recorded(ctx, c, opts, made, err)
}

// recorded returns the records of a deployment, with the plan, or the reason why there is
// none.
func recorded(ctx context.Context, c *cli.Console, opts deployer.Options, made deployer.PlanFile, failed error) (*observe.Report, error) {
	var view *plan.View
	if failed == nil {
		view = &made.View
	}
	r, err := observe.Recorded(ctx, opts.Config, opts.Options, view)
	if err != nil {
		return nil, err
	}
	if r.Deployment, r.Steps = cmp.Or(made.Deployment, r.Deployment), made.Plan.Steps; failed != nil {
		r.PlanNote = c.WithTarget(failed.Error())
	}
	return r, nil
}

// missingState returns the error for a missing state file.
func missingState(opts deployer.Options) (*file.MissingError, error) {
	path, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return nil, err
	}
	_, found, err := opts.ReadState(path, opts.Home)
	if err != nil || found {
		return nil, err
	}
	return file.Missing(opts.StateName(path), opts.Manifest), nil
}
