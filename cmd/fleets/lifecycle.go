package fleets

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
)

// newLifecycle returns the command that stops, starts or restarts the jobs of members.
func newLifecycle(c *cli.Console, action fleet.Strategy) *cobra.Command {
	a := fleetAsked{action: action}
	does := map[fleet.Strategy]string{fleet.StopStrategy: "Stop", fleet.StartStrategy: "Start", fleet.RestartStrategy: "Restart"}[action]
	cmd := &cobra.Command{
		Use:   string(action) + " FLEET",
		Short: does + " the jobs of members of a fleet",
		Long: fmt.Sprintf(`%s does what bootstrap %s does with each member that has a VM, in the order
and by the rules of fleet deploy. A run that was killed or failed continues with the
same command.`, does, action),
		Example: fmt.Sprintf("  bootstrap fleet %[1]s fleet.yml\n  bootstrap fleet %[1]s fleet.yml --only zone=z1", action),
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			opts.Action = action
			ctx := cmd.Context()
			defer owner.GiveBack(opts.Home)
			show, _, stop := fleetRenderer(ctx, c)
			defer stop()
			opts.Report, opts.Urgent = show, c.Signals.Second()
			_, err = rollout.Deploy(ctx, opts)
			return err
		},
	}
	f := cmd.Flags()
	fleetInputs(c, f, &a.inputs)
	f.StringArrayVar(&a.only, "only", nil, "only this `NAME`, LABEL=VALUE or failed")
	f.BoolVar(&a.blocked, "include-blocked", false, "also members that are blocked")
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	names := []string{"via", "var-source", "agent-timeout", "task-timeout"}
	if action == fleet.StartStrategy { // It may reboot a VM.
		names = append(names, "ruby", "pass-env", "package-dir", "cpi-timeout")
	} else {
		names = append(names, "skip-drain")
	}
	passFlags(f, own, &a.members, names)
	return cmd
}
