package records

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/state/file"
)

func newStateBackups(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true}
	cmd := &cobra.Command{
		Use:     "backups {MANIFEST | --state FILE}",
		Aliases: []string{"history"},
		Short:   "List the earlier versions of the state file",
		Long: `Backups lists the kept versions of the state, the newest first: those after the last 20
runs, and older ones that are the only record of a VM or disk. A store of a team keeps
the versions of one instance after the last 100 runs. With several instances, it lists
the versions of all together; with --instance, those of one.`,
		Example: "  bootstrap state backups manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			place, several, err := choice.ofSeveral(cmd.Context(), s)
			switch {
			case err != nil:
				return err
			case several:
				return printVersions(cmd.Context(), c, place)
			}
			list, err := s.versions(cmd.Context())
			if err != nil {
				return err
			}
			printBackups(c, list)
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

// versions lists the earlier versions of the state, from here or from the store.
func (s stateFile) versions(ctx context.Context) ([]file.Version, error) {
	if s.opts.Team != nil {
		if err := file.PullHistory(ctx, s.opts.Team); err != nil {
			return nil, err
		}
	}
	return file.Versions(s.path)
}

func printBackups(c *cli.Console, list []file.Version) {
	showBackups(c, ui.BackupsOf(list))
}

func showBackups(c *cli.Console, views []ui.Backup) {
	if c.JSON() {
		ui.PrintAll(c.Lines(), "backup", views)
		return
	}
	c.Print(func(out *ui.Writer) { ui.Backups(out, views) })
}

func newStateRestore(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true}
	var force bool
	cmd := &cobra.Command{
		Use:   "restore {MANIFEST | --state FILE} SERIAL",
		Short: "Restore an earlier version of the state file",
		Long: `Restore makes the version with that serial number the current one, under a new
number. The version that it replaces becomes a backup, or a file with the ending
.damaged. If only that version records something, restore needs --force, because the
record would be lost. To see what differs, run bootstrap state diff.

With several instances, it restores their record and the states of all together, or
with --instance the state of one. If it is killed, the same command continues.`,
		Example: "  bootstrap state restore manifest.yml 12",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, rest, err := choice.split(cmd, args, 1, 1)
			if err != nil {
				return err
			}
			serial, err := strconv.Atoi(rest[0])
			if err != nil {
				return errors.New("give the serial number of a backup, see bootstrap state backups")
			}
			c.Start()
			s, err := choice.at(cmd.Context(), path)
			if err != nil {
				return err
			}
			place, several, err := choice.ofSeveral(cmd.Context(), s)
			switch {
			case err != nil:
				return err
			case several:
				return restoreVersion(cmd.Context(), c, place, serial, force)
			}
			if s.opts.Team != nil {
				if err := file.PullHistory(cmd.Context(), s.opts.Team); err != nil {
					return err
				}
			}
			f, err := file.Restore(cmd.Context(), s.path, serial, force, s.opts)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, note := range f.Notes() {
				c.Say(report.Info, note)
			}
			if err := f.Unsent(); err != nil {
				return err
			}
			return printState(c, s.name, f.Get())
		},
	}
	choice.flags(cmd.Flags(), true)
	choice.instanceFlag(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "restore even if records are lost; their VMs and disks stay")
	return cmd
}
