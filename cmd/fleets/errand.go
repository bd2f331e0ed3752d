package fleets

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
)

// newRunErrand returns the command that runs an errand on members.
func newRunErrand(c *cli.Console) *cobra.Command {
	a := fleetAsked{action: fleet.ErrandStrategy}
	logs := ""
	cmd := &cobra.Command{
		Use:   "run-errand FLEET NAME",
		Short: "Run an errand on members of a fleet, and show its output",
		Long: `Run-errand does what bootstrap run-errand does with each member that has a VM, in the
order and by the rules of fleet deploy. Each line of output begins with the name of
the member. The exit code is the highest one of the scripts. A run that was killed or
failed continues with the same command, which leaves out members on which the errand
has succeeded; after bootstrap fleet abort, it runs on all again.

After the first Ctrl-C it starts on no other member; a second one cancels it where it
runs.`,
		Example: "  bootstrap fleet run-errand fleet.yml smoke-tests\n  bootstrap fleet run-errand fleet.yml status --only zone=z1 --when-changed",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return cli.WrongUsage(cmd, errors.New("expected a fleet file and the name of an errand: bootstrap fleet run-errand FLEET NAME"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			opts.Action, opts.Errand = a.action, args[1]
			if logs != "" {
				if opts.Program.ErrandLogs, err = filepath.Abs(logs); err != nil {
					return err
				}
			}
			c.Redactor.Name(opts.Errand)
			ctx := cmd.Context()
			defer owner.GiveBack(opts.Home)
			defer shareRuby(ctx, c, opts.Home, &opts.Program)()
			opts.Report, opts.Urgent = errandRenderer(c), c.Signals.Second()
			_, err = rollout.Deploy(ctx, opts)
			return err
		},
	}
	f := cmd.Flags()
	fleetInputs(c, f, &a.inputs)
	cli.DatabaseFlag(f, &a.database)
	f.StringArrayVar(&a.only, "only", nil, "only this `NAME`, LABEL=VALUE or failed")
	f.BoolVar(&a.blocked, "include-blocked", false, "also members that are blocked")
	f.StringVar(&logs, "download-logs", "", "write the jobs' logs below this `FOLDER`, by member")
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	cli.InstanceFlag(own, &unused.Options)
	own.Bool("when-changed", false, "skip it where no job has changed since it succeeded")
	own.Bool("keep-alive", false, "keep the VM of a group with lifecycle errand")
	passFlags(f, own, &a.members, append(ownFlags(), "instance", "when-changed", "keep-alive", "via", "cpi-timeout", "agent-timeout", "task-timeout"))
	return cmd
}

// errandRenderer returns a function that shows the events of an errand's run: its output,
// and on standard error the progress of the run.
func errandRenderer(c *cli.Console) func(rollout.Event) {
	c.ResultOnly()
	c.ReportTo(c.Stderr) // where finish prints the end of the command
	show := ui.FleetErrand(c.Writer(c.Out()).Long(), c.Writer(c.Stderr).Long(), ui.FleetPlain(c.Writer(c.Stderr)))
	if c.JSON() {
		show = ui.FleetJSON(c.Redactor.Lines(c.Out()))
	}
	if c.Events() == nil {
		return show
	}
	shown, record := show, ui.FleetJSON(c.Events())
	return func(e rollout.Event) {
		shown(e)
		record(e)
	}
}
