package cmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/state"
)

func newStateBackups(c *console) *cobra.Command {
	var choice stateChoice
	cmd := &cobra.Command{
		Use:   "backups {MANIFEST | --state FILE}",
		Short: "List the earlier versions of the state file",
		Long: `Backups lists the versions of the state file that are kept, the newest first,
with what each of them records. With --json, there is one object per line.`,
		Example: "  bootstrap state backups manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := choice.split(cmd, args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			list, err := state.Backups(path)
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
	Serial  int       `json:"serial"`
	Written time.Time `json:"written"`
	Path    string    `json:"path"`
	Owned   []string  `json:"owned"`
	Error   string    `json:"error,omitempty"` // why it cannot be restored
}

func (c *console) printBackups(list []state.Backup) {
	views := make([]backupView, len(list))
	for i, b := range list {
		v := backupView{Serial: b.Serial, Written: b.Written.UTC(), Path: b.Path, Owned: []string{}}
		st, err := b.Load()
		if err != nil {
			v.Error = err.Error()
		} else {
			v.Owned = append(v.Owned, st.Owned()...)
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
	table := ui.NewTable(out, "SERIAL", "REPLACED OR WRITTEN", "RECORDS")
	for _, v := range views {
		records := strings.Join(v.Owned, ", ")
		switch {
		case v.Error != "":
			records = "cannot be read: " + v.Error
		case records == "":
			records = "nothing"
		}
		table.Row(strconv.Itoa(v.Serial), ui.Moment(v.Written), records)
	}
	table.Print()
}

func newStateRestore(c *console) *cobra.Command {
	var choice stateChoice
	var force bool
	cmd := &cobra.Command{
		Use:   "restore {MANIFEST | --state FILE} SERIAL",
		Short: "Make an earlier version of the state file the present one",
		Long: `Restore writes the version with that serial number anew, under a new one. The
present version becomes a backup; if it is damaged, it is kept with the ending
.damaged. Where the present version records something that the earlier one does
not, that would be forgotten, and it is refused without --force.`,
		Example: "  bootstrap state restore manifest.yml 12",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, rest, err := choice.split(cmd, args, 1, 1)
			if err != nil {
				return err
			}
			serial, err := strconv.Atoi(rest[0])
			if err != nil {
				return errors.New("the serial number of a backup is expected, as bootstrap state backups lists it")
			}
			c.started = true
			opts, err := c.stateOptions(choice.wait)
			if err != nil {
				return err
			}
			f, err := state.Restore(cmd.Context(), path, serial, force, opts)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, note := range f.Notes() {
				c.say(deployer.Info, note)
			}
			return c.printState(path, f.Get())
		},
	}
	choice.flags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&force, "force", false, "forget what only the present version records; it stays in the cloud")
	return cmd
}
