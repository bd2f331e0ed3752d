package records

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/internal/owner"
)

func newStateBackups(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true, putsBack: true}
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
			place, _, err := choice.versions(cmd, args, 0, 0)
			if err != nil {
				return err
			}
			list, err := place.Versions(cmd.Context())
			if err != nil {
				return err
			}
			views := make([]ui.Backup, len(list))
			for i, v := range list {
				views[i] = backupView(v)
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "backup", views)
				return nil
			}
			c.Print(func(out *ui.Writer) { ui.Backups(out, views) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

// versions returns the place whose versions a command is about, and the numbers of versions
// among its arguments, at least min and at most max: a deployment with its record and all
// states, or a single state.
func (s *stateChoice) versions(cmd *cobra.Command, args []string, min, max int) (place deployment.Place, serials []int, err error) {
	path, rest, err := s.split(cmd, args, min, max)
	if err != nil {
		return place, nil, err
	}
	for _, arg := range rest {
		serial, err := strconv.Atoi(arg)
		if err != nil {
			return place, nil, errors.New("give the serial number of a version, see bootstrap state backups")
		}
		serials = append(serials, serial)
	}
	s.c.Start()
	at, err := s.at(cmd.Context(), path)
	if err != nil {
		return place, nil, err
	}
	place = at.place()
	if place.One = s.one.Instance != ""; !place.One && !at.hasRecord() {
		several, err := place.HasVersions(cmd.Context()) // Its record may be lost.
		if err != nil {
			return place, nil, err
		}
		place.One = !several
	}
	if !place.One {
		place.Name = cmp.Or(place.Opts.Team.Place(), place.Dir())
	}
	return place, serials, nil
}

func backupView(v *record.Version) ui.Backup {
	view := ui.Backup{Serial: v.Serial, Written: v.Written, By: v.By, Command: v.Command, Path: v.Path, Present: v.Present, Owned: []string{}, Only: v.Only}
	if v.Err != nil {
		view.Error = v.Err.Error()
		return view
	}
	view.Finished = deployment.Finished(v)
	if v.Record != nil {
		view.Instances = record.Names(v.Record.Instances)
	}
	view.Owned = append(view.Owned, deployment.Owned(v)...)
	return view
}

func newStateRestore(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true, putsBack: true}
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
			place, serials, err := choice.versions(cmd, args, 1, 1)
			if err != nil {
				return err
			}
			began := time.Now()
			done, err := deployment.Restore(cmd.Context(), place, serials[0], force)
			if err != nil {
				return err
			}
			for _, note := range done.Notes {
				c.Say(report.Info, note)
			}
			if place.One {
				st, err := stateFile{path: place.Path, name: place.Name, opts: place.Opts}.read(cmd.Context())
				if err != nil {
					return err
				}
				return printState(c, place.Name, st)
			}
			c.Changes.Several(place.Opts.Home, place.Dir(), "restore", fmt.Sprintf("version %d", serials[0]))
			c.KeepChanges(began, nil)
			owner.GiveBack(place.Opts.Home)
			text := fmt.Sprintf("Restored version %d of %s", serials[0], strings.Join(record.Names(done.Version.Record.Instances), ", "))
			if done.Before != nil && done.Before.Serial != done.Version.Serial {
				text += fmt.Sprintf("; the current one was version %d", done.Before.Serial)
			}
			return printDone(c, true, text, "")
		},
	}
	choice.flags(cmd.Flags(), true)
	choice.instanceFlag(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "restore even if records are lost; their VMs and disks stay")
	return cmd
}
