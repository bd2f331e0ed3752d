package about

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/templates"
)

// Commands returns the commands about the program and its machine.
func Commands(c *cli.Console) []*cobra.Command {
	return []*cobra.Command{newDoctor(c), newExplain(c), newVersion(c), newNotice(c), newExitCodes()}
}

// newVersion returns the command version.
func newVersion(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, what it was built from, and the numbers of its formats",
		Long: `Version prints the version of this program, the commit and its date, whether it has
changes that are not in the commit, the versions of Go and of the embedded Ruby, and
the numbers of the formats that it writes. A file in a newer format is refused.`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			program := Read()
			if c.JSON() {
				c.PrintObject("version", program)
				return nil
			}
			c.Product("version", program.Text())
			return nil
		},
	}
}

// newNotice returns the command that prints the licences of the embedded parts.
func newNotice(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "notice",
		Short: "Print the licence and the notices of the embedded Ruby",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			text, err := templates.Notice()
			if err != nil {
				return err
			}
			c.Product("text", text)
			return nil
		},
	}
}
