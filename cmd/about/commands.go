package about

import (
	"github.com/spf13/cobra"

	"bootstrap/templates"
)

// Console is what the commands use of the console. Print prints a result: its text, or
// the object if there is one and programs read the output.
type Console struct {
	Args  cobra.PositionalArgs // refuses arguments
	Start func()               // says that the command line was understood
	Print func(kind, text string, object any)
}

// NewVersion returns the command that prints which program this is.
func NewVersion(c Console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, what it was built from, and the numbers of its formats",
		Long: `Version prints the version of this program, the commit and its date, whether the
program has changes that are not in the commit, the version of Go and of the embedded
Ruby, and the numbers of the formats that it writes: the state file (state), plans of
plan --out (plan), what ~/.bosh keeps of a deployment (kept), the output of --json (json),
records, reports and tables of fleets, and the ledger of addresses. A file in a newer
format is refused.`,
		Args: c.Args,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			program := Read()
			c.Print("version", program.Text(), program)
			return nil
		},
	}
}

// NewNotice returns the command that prints the licences of what is embedded.
func NewNotice(c Console) *cobra.Command {
	return &cobra.Command{
		Use:   "notice",
		Short: "Print the licence and the notices of the embedded Ruby",
		Args:  c.Args,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			text, err := templates.Notice()
			if err != nil {
				return err
			}
			c.Print("text", text, nil)
			return nil
		},
	}
}
