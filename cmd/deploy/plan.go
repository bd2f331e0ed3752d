package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/page"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
)

func newPlan(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var out, format, html string
	var some someInstances
	var from earlier
	cmd := &cobra.Command{
		Use:   "plan MANIFEST",
		Short: "Print what deploy would do, and why",
		Long: `Plan prints what deploy would do, with a reason for each change and the steps during
which the service would be down. It changes nothing. The exit code is 0 if there is
nothing to do, and 2 if there is. If standard output is not a terminal, only the plan
is printed there, and progress goes to standard error.

With --templates, it compares the rendered files with those of the last deploy from
this machine. Secrets are shown as <redacted>, also in base64; other forms of a secret
that a template makes, such as a hash, are shown.`,
		Example: "  bootstrap plan manifest.yml\n  bootstrap plan manifest.yml --json\n  bootstrap plan manifest.yml --out plan.json\n  bootstrap plan manifest.yml --templates --format md >plan.md",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			switch {
			case format == markdown && c.JSON():
				return cli.WrongUsage(cmd, cli.Conflict("json", "format md", "a plan is printed in one form"))
			case format == markdown:
				printPlanAtEnd(c)
			case c.Terminal(c.Out()) == nil:
				c.ReportOnly(report.Planned) // On a terminal, the plan is part of the text.
			}
			opts.Manifest = args[0]
			if err := from.refused(cmd); err != nil {
				return err
			}
			s, err := severalOf(c, cmd, &opts, cli.Asking{})
			if err != nil {
				return err
			}
			if s != nil {
				if err := some.choose(s); err != nil {
					return err
				}
				s.earlier = from
				return s.runPlan(planOutput{format, out, html})
			}
			if err := some.refused(cmd); err != nil {
				return err
			}
			if opts.Instance != "" {
				keepOldDisk(cmd, &opts)
			}
			return planOne(cmd.Context(), c, opts, from, planOutput{format, out, html})
		},
	}
	f := cmd.Flags()
	c.DeployFlags(f, &opts)
	cli.InstanceFlag(f, &opts.Options)
	cli.PlanFlags(f, &opts)
	adoptFlags(f, &opts)
	some.flags(f)
	cli.WidthFlags(f, &opts)
	f.BoolVar(&opts.Recreate, "recreate", false, "replace the VM even if nothing changed")
	createdFlag(f, &opts)
	f.BoolVar(&opts.Previous, previousFlag, false, "show what deploy --previous would do")
	from.flags(f, "show what deploy --version `N` would do")
	templatesFlag(f, &opts)
	f.Var(values.Choice{To: &format, Of: []string{"text", markdown}}, "format", "print text, or md: markdown for pull requests")
	f.StringVar(&out, "out", "", "write the plan to this `FILE`, for deploy --plan")
	f.StringVar(&html, "html", "", "also write the plan as a page for browsers to this `FILE`")
	f.Lookup("lock-wait").Hidden = true // A plan takes no lock, so it never waits for one.
	return cmd
}

// planOne plans one instance, and prints and saves the plan.
func planOne(ctx context.Context, c *cli.Console, opts deployer.Options, from earlier, shown planOutput) error {
	var made deployer.PlanFile
	err := c.Deployment(ctx, opts, from.before(func(ctx context.Context, opts deployer.Options) (err error) {
		if made, err = deployer.MakePlan(ctx, opts); err != nil || shown.html == "" {
			return err
		}
		r, err := recorded(ctx, c, opts, made, nil)
		if err != nil {
			return err
		}
		return page.Write(shown.html, r, c.Redactor.Shown)
	}))
	if err != nil {
		return err
	}
	if shown.out != "" {
		if err := writePlan(shown.out, made); err != nil {
			return err
		}
	}
	switch {
	case shown.format == markdown:
		c.Print(func(out *ui.Writer) { ui.Markdown(out, made.Deployment, made.View) })
	case !c.JSON():
		ui.WriteSteps(c.Writer(c.Out()), made.Plan.Steps, made.View.Rows)
	}
	if made.Plan.Nothing() {
		return nil
	}
	return &exit.ChangesError{}
}

// markdown is the format for a comment on a pull request.
const markdown = "md"

// printPlanAtEnd makes the command print the plan at its end, and its progress on
// standard error.
func printPlanAtEnd(c *cli.Console) {
	nowhere, rest := c.Renderer(io.Discard), c.Renderer(c.Stderr)
	c.ResultOnly()
	c.ReportBy(func(e report.Event) {
		if e.Kind == report.Planned {
			nowhere(e) // it records the event for --events
		} else {
			rest(e)
		}
	})
}

func writePlan(path string, plan any) error {
	data, err := json.MarshalIndent(plan, "", "  ")
	if err == nil {
		err = atomicfile.Write(path, append(printable.JSON(data), '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the plan: %w", err)
	}
	return nil
}

// maxPlan limits the size of a plan's file.
const maxPlan = 64 << 20

// readPlan reads a saved plan of one instance.
func readPlan(path string) (*deployer.PlanFile, error) {
	plan, several, err := readPlanFile[deployer.PlanFile](path)
	if err == nil && several {
		err = &document.FileError{Err: fmt.Errorf("cannot use the plan %s for one instance: it is for a deployment with several: leave out --instance", path)}
	}
	return plan, err
}

// readSeveralPlan reads a saved plan of a deployment with several instances.
func readSeveralPlan(path string) (*deployment.Saved, error) {
	plan, several, err := readPlanFile[deployment.Saved](path)
	if err == nil && several && !plan.Whole() {
		return nil, noPlan(path)
	}
	if err == nil && !several {
		err = &document.FileError{Err: fmt.Errorf("cannot use the plan %s for a deployment with several instances: it is for one of them: name that with --instance GROUP/INDEX", path)}
	}
	return plan, err
}

// readPlanFile reads a saved plan, and whether it is one of several instances.
func readPlanFile[T any](path string) (*T, bool, error) {
	data, err := values.ReadFile(path, maxPlan, values.PipeTime)
	if err != nil {
		return nil, false, &document.FileError{Err: fmt.Errorf("cannot read the plan %s: %w", path, err)}
	}
	var head struct {
		Format  int
		Several bool
	}
	if err := json.Unmarshal(data, &head); err == nil && head.Format != 0 && (head.Format < deployer.OldPlanFormat || head.Format > deployer.PlanFormat) {
		return nil, false, &deployer.PlanFormatError{File: path, Format: head.Format}
	}
	plan := new(T)
	if err := json.Unmarshal(data, plan); err != nil || head.Format == 0 {
		return nil, false, noPlan(path)
	}
	return plan, head.Several, nil
}

// noPlan is the error for a file that is no saved plan.
func noPlan(path string) error {
	return &document.FileError{Err: fmt.Errorf("cannot read the plan %s: it is not a plan that bootstrap plan --out wrote", path)}
}
