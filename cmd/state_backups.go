package cmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/state/file"
)

func newStateBackups(c *console) *cobra.Command {
	var choice stateChoice
	cmd := &cobra.Command{
		Use:   "backups {MANIFEST | --state FILE}",
		Short: "List the earlier versions of the state file",
		Long: `Backups lists the kept versions of the state file, the newest first, with what each
records: the versions after the last run and the five runs before it. If only one
version records something that was never deleted, that version is kept for ever and
marked. With --json, there is one object per line.`,
		Example: "  bootstrap state backups manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := c.split(&choice, cmd, args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			list, err := file.Versions(path)
			if err != nil {
				return err
			}
			c.printBackups(list)
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	return cmd
}

// backupView is a backup as --json prints it.
type backupView struct {
	Serial   int       `json:"serial"`
	Written  time.Time `json:"written"`
	Path     string    `json:"path"`
	Present  bool      `json:"present"`  // the state file is still this version
	Finished bool      `json:"finished"` // the deploy that wrote it had finished
	Owned    []string  `json:"owned"`
	Only     []string  `json:"only_here,omitempty"` // CIDs that no later version records and that were not deleted
	Error    string    `json:"error,omitempty"`     // why it cannot be restored
}

func (c *console) printBackups(list []file.Version) {
	views := make([]backupView, len(list))
	for i, b := range list {
		v := backupView{Serial: b.Serial, Written: b.Written.UTC(), Path: b.Path, Present: b.Present, Owned: []string{}, Only: b.Only}
		if b.Err != nil {
			v.Error = b.Err.Error()
		} else {
			v.Finished = b.State.CurrentManifestSHA != ""
			v.Owned = append(v.Owned, b.State.Owned()...)
		}
		views[i] = v
	}
	if c.json {
		printLines(c, "backup", views)
		return
	}
	c.print(func(out *ui.Writer) { backupTable(out, views) })
}

func backupTable(out *ui.Writer, views []backupView) {
	if len(views) == 0 {
		fmt.Fprintln(out, "No backups")
		return
	}
	table := ui.NewTable(out, "SERIAL", "WRITTEN", "DEPLOY", "RECORDS").
		Yield("RECORDS", 16).Yield("DEPLOY", 0).Yield("RECORDS", 0)
	for _, v := range views {
		deploy := "unfinished"
		if v.Finished {
			deploy = "finished"
		}
		table.Row(strconv.Itoa(v.Serial), ui.Moment(v.Written), deploy, v.records())
	}
	table.Print()
}

func (v backupView) records() string {
	records := strings.Join(v.Owned, ", ")
	switch {
	case v.Error != "":
		return "cannot be read: " + v.Error
	case records == "":
		records = "nothing"
	}
	if len(v.Only) > 0 {
		records += " (only here: " + strings.Join(v.Only, ", ") + ")"
	}
	if v.Present {
		records += " (the current version)"
	}
	return records
}

func newStateRestore(c *console) *cobra.Command {
	var choice stateChoice
	var force bool
	cmd := &cobra.Command{
		Use:   "restore {MANIFEST | --state FILE} SERIAL",
		Short: "Restore an earlier version of the state file",
		Long: `Restore makes the version with that serial number the current one, under a new
number. The version that it replaces becomes a backup, or a file with the ending
.damaged if it is damaged. If that version records something that the restored one
does not, restore needs --force, because the record would be lost.`,
		Example: "  bootstrap state restore manifest.yml 12",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, rest, err := c.split(&choice, cmd, args, 1, 1)
			if err != nil {
				return err
			}
			serial, err := strconv.Atoi(rest[0])
			if err != nil {
				return errors.New("give the serial number of a backup, see bootstrap state backups")
			}
			c.started = true
			opts, err := c.stateOptions(path, choice.wait)
			if err != nil {
				return err
			}
			f, err := file.Restore(cmd.Context(), path, serial, force, opts)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, note := range f.Notes() {
				c.say(report.Info, note)
			}
			return c.printState(path, f.Get())
		},
	}
	choice.flags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&force, "force", false, "lose what only the current version records; it stays in the cloud")
	return cmd
}
