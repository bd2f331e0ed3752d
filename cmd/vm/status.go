package vm

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
)

func newStatus(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var ps, vitals bool
	cmd := &cobra.Command{
		Use:   "status {MANIFEST | --state FILE}",
		Short: "Show the state of the VM, its jobs, disks and certificates",
		Long: `Status shows what the state file records and what the agent answers. It changes and
locks nothing, so it also works during a deploy. On the machine that created the VM
the state file is enough; elsewhere the manifest, or --old-mbus and --old-ca, say how
to reach the agent.

The exit code is 0 if all is well, 1 if something is wrong (also a job that was
stopped on purpose, an unfinished deploy or an expired certificate), 69 if the agent
does not answer, and 66 if there is no state file. See docs/looking.md.

With several instances, it shows a row for each; the exit code is 0 if all are well.`,
		Example: "  bootstrap status manifest.yml\n" +
			"  bootstrap status bosh.yml -l vars.yml --vars-store creds.yml --expiry-warning 60d\n" +
			"  bootstrap status --state manifest-state.json --json\n" +
			"  bootstrap status cluster.yml --instance web --ps --vitals",
		Args: cli.ManifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = cli.Manifest(args)
			c.ReportBy(func(report.Event) {}) // print only the result
			several, err := instances.Select(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several != nil {
					return statusOfAll(ctx, c, several, opts, ps, vitals)
				}
				return status(ctx, c, opts)
			})
		},
	}
	reachFlags(c, cmd.Flags(), &opts)
	cli.ExpiryFlag(cmd.Flags(), &opts.Inputs)
	cmd.Flags().BoolVar(&ps, "ps", false, "with several instances, show the processes (with one: always)")
	cmd.Flags().BoolVar(&vitals, "vitals", false, "with several, show load, memory and disks (with one: always)")
	return cmd
}

func status(ctx context.Context, c *cli.Console, opts deployer.Options) error {
	condition, err := observe.Status(ctx, opts.Config, opts.Options)
	if err != nil {
		return err
	}
	for i, text := range condition.Problems {
		condition.Problems[i] = c.WithTarget(text)
	}
	if c.JSON() {
		c.PrintObject("", condition)
	} else {
		c.Print(func(out *ui.Writer) { ui.Condition(out, condition, time.Now()) })
	}
	switch agent := condition.Agent; {
	case condition.Well:
		return exit.Code(exit.Done)
	case agent != nil && !agent.Answers:
		return exit.Code(exit.Agent)
	}
	return exit.Code(exit.Failed)
}

// reachFlags adds the flags of commands that only call the VM's agent.
func reachFlags(c *cli.Console, f *pflag.FlagSet, opts *deployer.Options) {
	c.VarFlags(f, &opts.Inputs)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.AgentFlags(f, opts)
	cli.AnswerFlag(f, opts)
}
