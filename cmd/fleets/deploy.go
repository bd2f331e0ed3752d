package fleets

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
	"bootstrap/templates"
)

// shareRuby makes the processes of members share one embedded Ruby. The caller must call
// end.
func shareRuby(ctx context.Context, c *cli.Console, home string, p *rollout.Program) (end func()) {
	shared := templates.Share(ctx, templates.Config{Self: p.Self, Cache: instance.RubyCache(home), Env: c.Env}, os.TempDir(), "/tmp")
	if entry := shared.Entry(); entry != "" {
		p.Env = append(p.Env, entry)
	}
	return shared.Close
}

func newDeploy(c *cli.Console) *cobra.Command {
	var a fleetAsked
	cmd := &cobra.Command{
		Use:   "deploy FLEET",
		Short: "Update the members of a fleet",
		Long: `Deploy plans every member, and updates those with changes: canaries first, all of
which must end well, then the others. Blocked members are left out; members that
another run has locked are tried again at the end. After any other failure no further
member is started, and the command fails. To continue a run that was killed, run the
same command again. With --prune, members that are no longer in the fleet file are
deleted at the end, WITH THEIR DATA, if all others have ended well.

With --workers, members are updated on the machines where bootstrap fleet worker runs
with the same database; --database alone names the address ledger.

The first Ctrl-C starts no other member and waits for the running ones. A second
one asks these to end at their next safe step. After a third, they continue alone.`,
		Example: "  bootstrap fleet deploy fleet.yml\n  bootstrap fleet deploy fleet.yml --only failed",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			return runFleet(cmd, c, opts, a)
		},
	}
	a.flags(c, cmd)
	a.ask.Flags(cmd.Flags())
	pruneFlag(cmd.Flags(), &a.prune)
	workersFlag(cmd.Flags(), &a.workers)
	return cmd
}

func newRecreate(c *cli.Console) *cobra.Command {
	var a fleetAsked
	cmd := &cobra.Command{
		Use:   "recreate FLEET",
		Short: "Replace the VMs of all members of a fleet",
		Long: `Recreate replaces the VM of every member, also of one whose agent is silent, in the
order of fleet deploy. A run that was killed or failed continues with the same
command: it does not replace a VM twice. To begin a new one, end it with bootstrap
fleet abort first.`,
		Example: "  bootstrap fleet recreate fleet.yml\n  bootstrap fleet recreate fleet.yml --created-before 2026-11-22T10:00:00Z",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			opts.Action = fleet.RecreateStrategy
			return runFleet(cmd, c, opts, a)
		},
	}
	a.flags(c, cmd)
	a.ask.Flags(cmd.Flags())
	workersFlag(cmd.Flags(), &a.workers)
	return cmd
}

// runFleet carries out a run of a fleet and shows its progress.
func runFleet(cmd *cobra.Command, c *cli.Console, opts rollout.Options, a fleetAsked) error {
	ctx := cmd.Context()
	defer owner.GiveBack(opts.Home)
	defer shareRuby(ctx, c, opts.Home, &opts.Program)()
	if c.NeverAsks() {
		opts.Program.Flags = append(opts.Program.Flags, "--yes")
	}
	if a.workers {
		end, err := coordinate(cmd, c, &opts, a.database)
		if err != nil {
			return err
		}
		defer end()
	}
	show, hide, stop := fleetRenderer(ctx, c)
	defer stop()
	opts.Report = show
	if ask := c.Confirm(a.ask); ask != nil {
		opts.Confirm = func(ctx context.Context, r *rollout.Record) error {
			hide()
			showFleetPlan(c, r)
			if ui.FleetCreates(r) { // deploy does not ask before it creates a deployment either
				return nil
			}
			return cli.Agreed(ctx, ask, deployer.Question{Data: r.Numbers.ToDelete > 0, What: ui.FleetQuestion(r)})
		}
	}
	opts.Urgent = c.Signals.Second()
	_, err := rollout.Deploy(ctx, opts)
	return err
}
