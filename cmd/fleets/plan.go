package fleets

import (
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
)

func newPlan(c *cli.Console) *cobra.Command {
	var a fleetAsked
	var recreate bool
	cmd := &cobra.Command{
		Use:   "plan FLEET",
		Short: "Print what fleet deploy would do to each member",
		Long: `Plan plans every member, as bootstrap plan does, and prints one table of all plans
and in which order members are updated. It changes nothing. The exit code is 0 if
there is nothing to do, 2 if there is, and 1 if a member cannot be planned.`,
		Example: "  bootstrap fleet plan fleet.yml\n  bootstrap fleet plan fleet.yml --only zone=z1 --json",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			defer shareRuby(cmd.Context(), c, opts.Home, &opts.Program)()
			if recreate {
				opts.Action = fleet.RecreateStrategy
			}
			opts.Report = func(rollout.Event) {}
			if f := c.Canvas(c.Stderr); f != nil && !c.JSON() {
				show, _, stop := fleetTerminal(cmd.Context(), c, c.Stderr, f)
				defer stop()
				opts.Report = show
			}
			r, err := rollout.Preview(cmd.Context(), opts)
			if err != nil {
				return err
			}
			return printFleetPlan(c, r)
		},
	}
	a.flags(c, cmd)
	pruneFlag(cmd.Flags(), &a.prune)
	cmd.Flags().BoolVar(&recreate, "recreate", false, "plan what fleet recreate would do")
	return cmd
}

func printFleetPlan(c *cli.Console, r *rollout.Record) error {
	if c.JSON() {
		c.PrintObject("fleet_run", r)
	} else {
		c.Print(func(out *ui.Writer) { ui.FleetPlan(out, r) })
	}
	switch n := r.Count()[schedule.Failed]; {
	case n > 0:
		return fmt.Errorf("%d of %d members cannot be planned", n, len(r.Members))
	case r.Numbers.ToDo+r.Numbers.ToDelete > 0:
		return &exit.ChangesError{}
	}
	return nil
}

// showFleetPlan prints the table of fleet plan before a question, on the stream of the
// question.
func showFleetPlan(c *cli.Console, r *rollout.Record) {
	if d := c.Dialogue(); d != nil {
		defer d.Close()
		d.Show(func(out *ui.Writer) { ui.FleetPlan(out, r) })
	}
}
