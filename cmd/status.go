package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
)

func newStatus(c *console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "status {MANIFEST | --state FILE}",
		Short: "Tell how the VM, its jobs, disks and certificates are",
		Long: `Status tells what the state file records and what the agent answers: VM, disks,
stemcell, releases, jobs with their processes, addresses, the last deploy, calls
without a known end, and the days that certificates have left. It changes nothing
and locks nothing, so that it also works while a deploy runs. On the machine that
made the VM the state file is enough; elsewhere the manifest, or --old-mbus and
--old-ca, say how the agent is reached. With --json, it prints one object.

It ends with exit code 0 if all is well, 1 if something is not (jobs that were
stopped on purpose, an unfinished deploy and an expired certificate, too), 69 if
the agent does not answer, and 66 if there is no state file.`,
		Example: "  bootstrap status manifest.yml\n" +
			"  bootstrap status bosh.yml -l vars.yml --vars-store creds.yml --expiry-warning 60d\n" +
			"  bootstrap status --state manifest-state.json --json",
		Args: manifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = first(args)
			c.report = func(report.Event) {} // the result alone is printed
			return c.deployment(cmd.Context(), opts, c.status)
		},
	}
	c.reachFlags(cmd.Flags(), &opts)
	expiryFlag(cmd.Flags(), &opts.Inputs)
	return cmd
}

func (c *console) status(ctx context.Context, opts deployer.Options) error {
	condition, err := deployer.Look(ctx, opts)
	if err != nil {
		return err
	}
	for i, text := range condition.Problems {
		condition.Problems[i] = c.withTarget(text)
	}
	if c.json {
		printLines(c, "", []*deployer.Condition{condition})
	} else {
		c.print(func(out *ui.Writer) { ui.Condition(out, condition, time.Now()) })
	}
	switch agent := condition.Agent; {
	case condition.Well:
		return exitCode(exitDone)
	case agent != nil && !agent.Answers:
		return exitCode(exitAgent)
	}
	return exitCode(exitFailed)
}
