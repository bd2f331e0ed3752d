package fleets

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
)

func newDelete(c *cli.Console) *cobra.Command {
	a := fleetAsked{action: fleet.DeleteStrategy}
	cmd := &cobra.Command{
		Use:   "delete FLEET",
		Short: "Delete members of a fleet, with their disks",
		Long: `Delete deletes the VM, THE PERSISTENT DISK WITH ITS DATA and the state of each
member, in the order of fleet deploy. With --removed, it deletes members that are
still deployed and no longer in the fleet file; without --removed and --only,
those and all members of the file. To continue after a kill or an error, run the same
command again.

On a terminal it asks first. Without a terminal it deletes only with --yes.`,
		Example: "  bootstrap fleet delete fleet.yml --removed\n  bootstrap fleet delete fleet.yml --only page-2 --yes",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			return deleteFleet(cmd, c, opts, a)
		},
	}
	f := cmd.Flags()
	fleetInputs(c, f, &a.inputs)
	cli.DatabaseFlag(f, &a.database)
	f.StringArrayVar(&a.only, "only", nil, "only this `NAME`, LABEL=VALUE or failed")
	f.BoolVar(&a.removed, "removed", false, "only members that are no longer in the fleet file")
	f.BoolVar(&a.blocked, "include-blocked", false, "also members that are blocked")
	var opts deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &opts)
	own.BoolVar(&opts.KeepDisk, "keep-disk", false, "keep the persistent disks as orphaned ones, see bootstrap disks")
	own.BoolVar(&opts.Fix, "fix", false, "delete a VM whose agent is silent or busy, without stopping its jobs")
	passFlags(f, own, &a.members, append(deleteFlags(), "fix", "keep-disk"))
	a.ask.Flags(f)
	return cmd
}

// deleteFleet deletes members and shows the progress.
func deleteFleet(cmd *cobra.Command, c *cli.Console, opts rollout.Options, a fleetAsked) error {
	ctx := cmd.Context()
	defer owner.GiveBack(opts.Home)
	opts.Program.Flags = append(opts.Program.Flags, "--yes")
	show, hide, stop := fleetRenderer(ctx, c)
	defer stop()
	opts.Report = show
	if ask := c.Confirm(a.ask); ask != nil {
		opts.Confirm = func(ctx context.Context, r *rollout.Record) error {
			hide()
			return cli.Agreed(ctx, ask, deployer.Question{Data: true, What: ui.FleetQuestion(r)})
		}
	}
	opts.Urgent = c.Signals.Second()
	_, err := rollout.Deploy(ctx, opts)
	return err
}

// deletable returns the members that can be deleted: those of the fleet file, and removed
// ones.
func deletable(opts rollout.Options) ([]fleet.Member, error) {
	old, err := rollout.Load(opts.Fleet.Path)
	if err != nil {
		return nil, err
	}
	removed := rollout.Members(old.RemovedFrom(opts.Fleet, opts.Home), opts.Fleet.Members)
	return append(append([]fleet.Member(nil), opts.Fleet.Members...), removed...), nil
}
