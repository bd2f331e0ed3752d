package records

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/state/file"
)

func newStateRm(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var force bool
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:   "rm {MANIFEST | --state FILE}",
		Short: "Remove the state file, without deleting anything in the cloud",
		Long: `Rm removes a state file that records nothing. With --force it also removes one that
records something or is damaged: then VM, disks and stemcells stay in the cloud
without a record. On a terminal it asks first. The backups stay, and bootstrap state
restore brings the file back. To delete what a state file records, use bootstrap
delete.`,
		Example: "  bootstrap state rm manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			if force {
				if err := confirmForgotten(cmd.Context(), c, s, c.Confirm(ask)); err != nil {
					return err
				}
			}
			if err := file.Discard(cmd.Context(), s.path, force, s.opts); err != nil {
				return err
			}
			if c.JSON() {
				c.PrintObject("removed", RemovedView{s.name})
				return nil
			}
			c.Print(func(out *ui.Writer) { fmt.Fprintln(out, "Removed "+s.name) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), true)
	choice.instanceFlag(cmd.Flags())
	ask.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "also remove a file that records something or is damaged")
	return cmd
}

// RemovedView is a removed state file, in the form of --json.
type RemovedView struct {
	Path string `json:"path"`
}

// confirmForgotten asks before the only record of a VM or disk is removed.
func confirmForgotten(ctx context.Context, c *cli.Console, s stateFile, confirm func(context.Context, deployer.Question) (bool, error)) error {
	if confirm == nil {
		return nil // the state need not be readable
	}
	what := "the state file " + s.name + " is removed; it cannot be read, and what it records stays in the cloud"
	if st, err := s.read(); err == nil {
		owned := st.Owned()
		if len(owned) == 0 {
			return nil
		}
		what = "the state file " + s.name + " is removed; these stay in the cloud without a record: " + strings.Join(owned, ", ")
	}
	return cli.Agreed(ctx, confirm, deployer.Question{What: []string{what}})
}
