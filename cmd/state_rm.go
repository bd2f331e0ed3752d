package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/state"
)

func newStateRm(c *console) *cobra.Command {
	var choice stateChoice
	var force bool
	cmd := &cobra.Command{
		Use:   "rm {MANIFEST | --state FILE}",
		Short: "Remove the state file, without deleting anything in the cloud",
		Long: `Rm removes a state file that records nothing. With --force it also removes one
that does, or that is damaged: VM, disks and stemcells stay in the cloud, and
nothing knows of them any more. The backups stay, so that restore brings it back.
To delete what it records, use bootstrap delete.`,
		Example: "  bootstrap state rm manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := choice.split(args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			opts, err := c.stateOptions(choice.wait)
			if err != nil {
				return err
			}
			if err := state.Discard(cmd.Context(), path, force, opts); err != nil {
				return err
			}
			if c.json {
				printLines(c, "removed", []removedView{{path}})
				return nil
			}
			c.print(func(out *ui.Writer) { fmt.Fprintln(out, "Removed "+path) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&force, "force", false, "also a file that records something, or is damaged")
	return cmd
}

// removedView is a state file that is removed, as --json prints it.
type removedView struct {
	Path string `json:"path"`
}
