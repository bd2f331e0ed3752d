package records

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/observe"
)

func newList(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the deployments that this machine knows",
		Long: `List prints every deployment that this machine has deployed, or whose state it has
fetched from a store, and that was not deleted. It says which state files are gone.
It asks neither agents nor clouds: status does.`,
		Example: "  bootstrap list\n  bootstrap list --json | jq -r 'select(.status != \"deployed\") | .manifest'",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			home, err := c.BoshHome()
			if err != nil {
				return err
			}
			list, err := observe.List(home)
			if err != nil {
				return err
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "deployment", list)
				return nil
			}
			c.Print(func(out *ui.Writer) { ui.Deployments(out, list) })
			return nil
		},
	}
}
