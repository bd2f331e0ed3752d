package about

import (
	"context"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
)

func newDoctor(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor [MANIFEST]",
		Short: "Check this machine and what a deploy needs, with remedies",
		Long: `Doctor checks this machine, and with a manifest or --state also what a deploy needs:
the manifest, the state file and its lock, ports, keys, the agent, the clock,
certificates, and the installed CPI. Each check ends as ok, warn, fail or skipped,
and says what to do. It changes nothing except the cache of the embedded Ruby. See
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
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				return doctor(ctx, c, opts, strict)
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

func doctor(ctx context.Context, c *cli.Console, opts deployer.Options, strict bool) error {
	out := c.Writer(c.Out())
	defer out.Flush()
	count := map[observe.CheckResult]int{}
	err := observe.Diagnose(ctx, opts.Config, opts.Options, func(check observe.Check) {
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
