package vm

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
)

func newLogs(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var what access.LogsOptions
	cmd := &cobra.Command{
		Use:   "logs {MANIFEST | --state FILE}",
		Short: "Fetch, show or follow the VM's logs",
		Long: `Logs fetches the logs of the jobs into an archive that only its owner may read. IT
CONTAINS ALL SECRETS THAT A JOB HAS LOGGED.

With --tail or --follow it prints the logs on standard output, without the secrets of
the manifest; progress goes to standard error. --follow runs until it is interrupted.

With several instances, it fetches all at the same time, or those of --instance: into
a new folder with an archive for each, or as lines that begin with the name of the
instance.`,
		Example: "  bootstrap logs manifest.yml\n  bootstrap logs manifest.yml --job web --tail 20\n  bootstrap logs manifest.yml --follow\n  bootstrap logs cluster.yml --instance web --follow",
		Args:    cli.ManifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("tail") && what.Tail == 0 && !what.Follow {
				return errors.New("--tail 0 shows nothing; give a number of lines, for example --tail 20")
			}
			c.Start()
			opts.Manifest = cli.Manifest(args)
			if what.Follow || what.Tail > 0 {
				c.ReportOnly(report.Log)
			}
			c.Signals.End(what.Follow)
			if what.Follow && !cmd.Flags().Changed("tail") {
				what.Tail = defaultTail
			}
			several, err := instances.Select(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			if several != nil && what.Out != "" {
				return cli.WrongUsage(cmd, errors.New("--out is for the archive of one instance, and several are selected: --dir names the folder for all"))
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several != nil {
					return logsOfAll(ctx, c, several, opts, what)
				}
				return deployer.Logs(ctx, opts, what)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&what.Agent, "agent", false, "the agent's logs instead of the jobs'")
	f.BoolVar(&what.System, "system", false, "the machine's logs, /var/log, instead of the jobs'")
	f.StringArrayVar(&what.Jobs, "job", nil, "only the logs of the job with this `NAME`; repeatable")
	f.StringArrayVar(&what.Only, "only", nil, "only logs that match this `GLOB`, ** for any folders; repeatable")
	f.StringVar(&what.Dir, "dir", ".", "write the archive into this `FOLDER`, under a new name")
	f.StringVar(&what.Out, "out", "", "write the archive to this `FILE`")
	f.Var((*values.Lines)(&what.Tail), "tail", fmt.Sprintf("show the last `N` lines of each log (without N: %d)", defaultTail))
	f.Lookup("tail").Annotations = map[string][]string{environment.WithoutValue: {strconv.Itoa(defaultTail)}}
	f.BoolVarP(&what.Follow, "follow", "f", false, "show the last lines of each log, and then new ones")
	reachFlags(c, f, &opts)
	return cmd
}

// defaultTail is the number of lines with which --tail and --follow begin.
const defaultTail = 10
