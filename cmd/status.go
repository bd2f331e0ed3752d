package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
)

func newStatus(c *console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "status {MANIFEST | --state FILE}",
		Short: "Show the state of the VM, its jobs, disks and certificates",
		Long: `Status shows what the state file records and what the agent answers: VM, disks,
stemcell, releases, jobs with their processes, addresses, the last deploy, CPI calls
with an unknown outcome, and the days until certificates expire. It changes and
locks nothing, so it also works while a deploy runs. On the machine that created the
VM the state file is enough; elsewhere the manifest, or --old-mbus and --old-ca, say
how to reach the agent. With --json, it prints one object.

The exit code is 0 if all is well, 1 if something is wrong (even if it is only a job
that was stopped on purpose, an unfinished deploy or an expired certificate), 69 if
the agent does not answer, and 66 if there is no state file.`,
		Example: "  bootstrap status manifest.yml\n" +
			"  bootstrap status bosh.yml -l vars.yml --vars-store creds.yml --expiry-warning 60d\n" +
			"  bootstrap status --state manifest-state.json --json",
		Args: usage.ManifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = first(args)
			c.report = func(report.Event) {} // print only the result
			return c.deployment(cmd.Context(), opts, c.status)
		},
	}
	c.reachFlags(cmd.Flags(), &opts)
	expiryFlag(cmd.Flags(), &opts.Inputs)
	return cmd
}

func (c *console) status(ctx context.Context, opts deployer.Options) error {
	condition, err := observe.Status(ctx, opts.Config, opts.Options)
	if err != nil {
		return err
	}
	for i, text := range condition.Problems {
		condition.Problems[i] = c.withTarget(text)
	}
	if c.json {
		printLines(c, "", []*observe.Condition{condition})
	} else {
		c.print(func(out *ui.Writer) { ui.Condition(out, condition, time.Now()) })
	}
	switch agent := condition.Agent; {
	case condition.Well:
		return exit.Code(exit.Done)
	case agent != nil && !agent.Answers:
		return exit.Code(exit.Agent)
	}
	return exit.Code(exit.Failed)
}
