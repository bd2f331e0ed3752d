package records

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/state"
	"bootstrap/state/file"
)

func newStateShow(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "show {MANIFEST | --state FILE}",
		Short: "Print what the state file records",
		Long: `Show prints what the state file records, without locking it or asking the cloud;
bootstrap status asks the agent. With --json, it prints one object.`,
		Example: "  bootstrap state show manifest.yml\n  bootstrap state show --state manifest-state.json --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			st, err := s.read()
			if err != nil {
				return err
			}
			return printState(c, s.name, st)
		},
	}
	choice.flags(cmd.Flags(), false)
	return cmd
}

// read reads the state, which must exist.
func (s stateFile) read() (state.State, error) {
	st, found, err := file.Read(s.path, s.opts.Home)
	if err == nil && !found {
		err = &file.MissingError{Path: s.name}
	}
	return st, err
}

// printState prints a state; name is its path or its store.
func printState(c *cli.Console, name string, st state.State) error {
	view := ui.StateOf(name, st)
	if c.JSON() {
		c.PrintObject("state", view)
		return nil
	}
	c.Print(view.Print)
	return nil
}
