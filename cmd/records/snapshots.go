package records

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/state"
)

func newSnapshots(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "snapshots {MANIFEST | --state FILE}",
		Short: "List the snapshots of disks; take, delete or restore one",
		Long: `Snapshots lists the snapshots of disks that the state file records: those of this
command, and those that update.snapshot: true of the manifest takes before a change.
It locks nothing and does not ask the cloud.`,
		Example: "  bootstrap disks snapshots manifest.yml\n  bootstrap disks snapshots take manifest.yml\n  bootstrap disks snapshots restore manifest.yml snap-3f0c && bootstrap deploy manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Mistaken(cmd, args, 1); err != nil {
				return err
			}
			list, err := choice.snapshots(cmd, args)
			if err != nil {
				return err
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "snapshot", list)
				return nil
			}
			c.Print(func(out *ui.Writer) { ui.Snapshots(out, list) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	cmd.AddCommand(newSnapshotsTake(c), newSnapshotsDelete(c), newSnapshotsRestore(c))
	return cmd
}

// snapshots returns the snapshots of the state that was chosen, or of several instances.
func (s *stateChoice) snapshots(cmd *cobra.Command, args []string) ([]ui.Snapshot, error) {
	all, list, chosen, err := s.recorded(cmd, args)
	switch {
	case err != nil:
		return nil, err
	case all != nil:
		return snapshotsOfAll(s.c, all, list)
	}
	st, err := chosen.read(cmd.Context())
	if err != nil {
		return nil, err
	}
	return ui.SnapshotsOf(st), nil
}

// snapshotsOfAll returns the snapshots of several instances.
func snapshotsOfAll(c *cli.Console, all *record.Record, of []*record.Instance) ([]ui.Snapshot, error) {
	c.Start()
	home, err := c.BoshHome()
	if err != nil {
		return nil, err
	}
	var list []ui.Snapshot
	for _, in := range of {
		st, _, err := all.ReadState(in, home)
		if err != nil {
			return nil, err
		}
		for _, s := range ui.SnapshotsOf(st) {
			s.Instance, s.InstanceID, s.Zone = in.Name(), in.ID, in.Zone
			list = append(list, s)
		}
	}
	return list, nil
}

func newSnapshotsTake(c *cli.Console) *cobra.Command {
	of := &aboutSnapshots{c: c, do: deployer.TakeSnapshot, chosen: func(_ *deployer.Options, _ string, st state.State) (list []string) {
		for _, d := range st.UsedDisks() {
			list = append(list, d.CID)
		}
		return list
	}, none: errors.New("no instance has a disk to take a snapshot of")}
	return of.command(&cobra.Command{
		Use:   "take {MANIFEST | --state FILE} [GROUP/INDEX]",
		Short: "Take a snapshot of each disk in use",
		Long: `Take takes a snapshot of each disk in use, if the CPI can. The jobs continue to run
and to write: stop them before, if their data must be complete.`,
		Example: "  bootstrap disks snapshots take manifest.yml\n  bootstrap disks snapshots take cluster.yml db/0",
	})
}

func newSnapshotsDelete(c *cli.Console) *cobra.Command {
	of := &aboutSnapshots{c: c, do: deployer.DeleteSnapshots, asks: true, chosen: func(o *deployer.Options, instance string, st state.State) (lines []string) {
		for _, s := range st.Own.Snapshots {
			if s.CID == o.Disk || o.Disk == "" && s.Taken.Before(o.OrphansBefore) {
				lines = append(lines, deployer.DeletesSnapshot(s, instance))
			}
		}
		return lines
	}}
	cmd := of.command(&cobra.Command{
		Use:   "delete {MANIFEST | --state FILE} {CID | --older-than TIME}",
		Short: "Delete snapshots",
		Long: `Delete deletes a snapshot, or all that were taken longer ago than a time. On the
machine that deployed, it needs neither the contents of the manifest nor variables nor
downloads.`,
		Example: "  bootstrap disks snapshots delete manifest.yml snap-3f0c\n  bootstrap disks snapshots delete manifest.yml --older-than 30d",
	})
	of.cid = true
	cmd.Flags().Var(&before{opts: &of.opts}, "older-than", "all taken longer ago than this, for example 30d")
	return cmd
}

func newSnapshotsRestore(c *cli.Console) *cobra.Command {
	disk := ""
	of := &aboutSnapshots{c: c, cid: true, do: func(ctx context.Context, opts deployer.Options) error {
		return deployer.RestoreSnapshot(ctx, opts, disk)
	}, chosen: func(o *deployer.Options, _ string, st state.State) []string {
		if slices.ContainsFunc(st.Own.Snapshots, func(s state.Snapshot) bool { return s.CID == o.Disk }) {
			return []string{o.Disk}
		}
		return nil
	}}
	cmd := of.command(&cobra.Command{
		Use:   "restore {MANIFEST | --state FILE} CID",
		Short: "Make a new disk with the data of a snapshot the current one",
		Long: `Restore makes a new disk with the data of a snapshot, and makes it the current one of
its instance: the next deploy attaches it. The disk that was the current one is kept as
an orphan. The BOSH CPI API has no call for this, and only the embedded CPI can: with
another one, make a disk of the snapshot in the cloud, and name it with --disk.`,
		Example: "  bootstrap disks snapshots restore manifest.yml snap-3f0c && bootstrap deploy manifest.yml\n  bootstrap disks snapshots restore manifest.yml snap-3f0c --disk vol-4e5f",
	})
	cmd.Flags().StringVar(&disk, "disk", "", "`CID` of a disk that you have made of the snapshot in the cloud")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkCID("--disk", disk); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// aboutSnapshots is a command about the snapshots of one instance or several.
type aboutSnapshots struct {
	c    *cli.Console
	opts deployer.Options
	ask  cli.Asking
	cid  bool // the last argument is the CID of a snapshot
	asks bool // it asks about the lines of chosen
	do   func(context.Context, deployer.Options) error
	// chosen returns a line for each object of an instance's state that the command is about.
	chosen func(o *deployer.Options, instance string, st state.State) []string
	none   error // of several: no instance is chosen
}

// command completes the command.
func (a *aboutSnapshots) command(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = a.run
	diskFlags(a.c, cmd.Flags(), &a.opts)
	a.ask.Flags(cmd.Flags())
	cmd.PreRun = func(*cobra.Command, []string) { a.opts.Confirm = a.c.Confirm(a.ask) }
	return cmd
}

func (a *aboutSnapshots) run(cmd *cobra.Command, args []string) error {
	f := cmd.Flags().Lookup("older-than")
	older := f != nil && f.Changed
	if a.cid && !older {
		if len(args) == 0 {
			return fmt.Errorf("%s needs the CID of a snapshot: %s", cli.ShortPath(cmd), cli.Form(cmd))
		}
		a.opts.Disk, args = args[len(args)-1], args[:len(args)-1]
	}
	if !a.cid && len(args) == 2 {
		a.opts.Instance, args = args[1], args[:1]
	}
	switch {
	case len(args) > 1:
		return cli.TooMany(cmd, args)
	case len(args) == 1:
		a.opts.Manifest = args[0]
	case a.opts.StateFile == "":
		return fmt.Errorf("%s needs a manifest, or the state file: %s", cli.ShortPath(cmd), cli.Form(cmd))
	default:
		if err := cli.NoInputs(cmd); err != nil {
			return err
		}
	}
	a.c.Start()
	a.opts.Inputs.Lenient = true
	all, _, err := severalRecorded(cmd.Context(), a.c, &a.opts)
	switch {
	case err != nil:
		return err
	case all == nil:
		return a.c.Deployment(cmd.Context(), a.opts, a.do)
	}
	names := a.opts.Instance
	a.opts.Instance = ""
	return a.c.Deployment(cmd.Context(), a.opts, func(ctx context.Context, opts deployer.Options) error {
		return a.several(ctx, all.Dir(), names, opts)
	})
}

// several runs the command for the instances of a deployment that it is about.
func (a *aboutSnapshots) several(ctx context.Context, dir, names string, opts deployer.Options) error {
	unlock, err := instances.Lock(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer unlock()
	named := opts.Options
	named.Instance = names
	all, list, err := selectedWithFormer(&named) // Another run may have changed them before the lock.
	if err != nil {
		return err
	}
	var of []*record.Instance
	var lines []string
	for _, in := range list {
		st, found, err := all.ReadState(in, opts.Home)
		if err != nil {
			return err
		}
		if chosen := a.chosen(&opts, in.Name(), st); found && len(chosen) > 0 {
			of, lines = append(of, in), append(lines, chosen...)
		}
	}
	switch {
	case len(of) > 0:
	case a.none != nil:
		return a.none
	case opts.Disk != "":
		return fmt.Errorf("there is no snapshot %q: `bootstrap disks snapshots MANIFEST` lists those that are recorded", opts.Disk)
	default:
		a.c.Say(report.Info, "No snapshot is that old: nothing to delete")
		return nil
	}
	if a.asks {
		if err := cli.Agreed(ctx, opts.Confirm, deployer.Question{What: lines, Data: true}); err != nil {
			return err
		}
	}
	return instances.OnStates(ctx, opts, all, of, a.do)
}
