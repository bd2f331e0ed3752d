package about

import (
	"context"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

func newDoctor(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor [MANIFEST]",
		Short: "Check this machine and what a deploy needs, with remedies",
		Long: `Doctor checks this machine, and with a manifest or --state also what a deploy needs:
the manifest, the state file and its lock, ports, keys, the agent, the clock,
certificates, and the installed CPI. Each check ends as ok, warn, fail or skipped, and
says what to do. It changes nothing except the cache of the embedded Ruby. See
docs/looking.md.

The exit code is 0 if no check failed, else 1; with --strict also 1 after a warning.`,
		Example: "  bootstrap doctor\n" +
			"  bootstrap doctor bosh.yml -l vars.yml --vars-store creds.yml\n" +
			"  bootstrap doctor bosh.yml --vars-store creds.yml --expiry-warning 60d --strict --json",
		Args: cli.AtMostAManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			if len(args) > 0 {
				opts.Manifest = args[0]
			}
			c.ReportBy(func(report.Event) {}) // print only the findings
			names, several, err := instances.Drafted(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several {
					return doctor(c, strict, func(each func(observe.Check)) error { return diagnoseAll(ctx, c, opts, names, each) })
				}
				return doctor(c, strict, func(each func(observe.Check)) error { return observe.Diagnose(ctx, opts.Config, opts.Options, each) })
			})
		},
	}
	f := cmd.Flags()
	c.InputFlags(f, &opts.Inputs)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.RubyFlag(f, &opts.Ruby)
	cli.OldAgentFlags(f, &opts)
	cli.ViaFlag(f, &opts)
	cli.AnswerFlag(f, &opts)
	f.BoolVar(&strict, "strict", false, "count warnings as failures")
	return cmd
}

// diagnoseAll checks what a deploy of several instances needs. What is the same for all of
// them is reported once.
func diagnoseAll(ctx context.Context, c *cli.Console, opts deployer.Options, names string, each func(observe.Check)) error {
	read := false
	err := instances.OnDraft(ctx, c, opts, names, func(of *instances.Selection, _ *manifest.Deployment, opts deployer.Options) error {
		read = true
		found := make([][]observe.Check, len(of.List))
		errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) error {
			return observe.Diagnose(ctx, opts.Config, opts.Options, func(check observe.Check) { found[i] = append(found[i], check) })
		})
		for _, err := range errs {
			if err != nil { // only that of ctx
				return err
			}
		}
		for at := range found[0] {
			for i, check := range found {
				first, same := sameCheck(found, i, at)
				if first < i {
					continue
				}
				one := check[at]
				if len(same) < len(of.List) {
					for _, j := range same {
						one.Instances = append(one.Instances, of.List[j].Name())
					}
				}
				each(one)
			}
		}
		return nil
	})
	if err == nil || read {
		return err
	}
	// The manifest cannot be read, so this machine is all that can be checked.
	opts.Manifest = ""
	each(observe.Check{Name: "manifest", Result: observe.CheckFail, Detail: err.Error()})
	return observe.Diagnose(ctx, opts.Config, opts.Options, each)
}

// sameCheck returns which instances have the same result of a check as one of them, and the
// first of these.
func sameCheck(found [][]observe.Check, of, at int) (first int, same []int) {
	want := found[of][at]
	for i, list := range found {
		if has := list[at]; has.Result == want.Result && has.Detail == want.Detail && has.Remedy == want.Remedy {
			same = append(same, i)
		}
	}
	return same[0], same
}

func doctor(c *cli.Console, strict bool, diagnose func(each func(observe.Check)) error) error {
	out := c.Writer(c.Out())
	defer out.Flush()
	count := map[observe.CheckResult]int{}
	err := diagnose(func(check observe.Check) {
		count[check.Result]++
		check.Detail, check.Remedy = c.WithTarget(check.Detail), c.WithTarget(check.Remedy)
		if c.JSON() {
			c.PrintObject("check", check)
		} else {
			ui.Check(out, check)
		}
	})
	if err != nil {
		return err
	}
	failed, warned := count[observe.CheckFail], count[observe.CheckWarn]
	if !c.JSON() {
		ui.Checked(out, failed, warned)
	}
	if failed > 0 || strict && warned > 0 {
		return exit.Code(exit.Failed)
	}
	return exit.Code(exit.Done)
}
