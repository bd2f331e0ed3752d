package records

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/state"
	"bootstrap/state/file"
)

func newStateShow(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "show {MANIFEST | --state FILE}",
		Short: "Print what the state file records",
		Long: `Show prints what the state file records, without locking it or asking the cloud;
bootstrap status asks the agent. With several instances, it prints the state of each.`,
		Example: "  bootstrap state show manifest.yml\n  bootstrap state show --state manifest-state.json --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := deployer.Options{Options: choice.one}
			opts.Manifest, opts.StateFile = cli.Manifest(args), choice.file
			several, err := instances.Select(cmd.Context(), c, &opts)
			switch {
			case err != nil:
				return err
			case several != nil && len(args) == 1:
				return showAll(c, several)
			}
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			st, err := s.read(cmd.Context())
			if err != nil {
				return err
			}
			return printState(c, s.name, st)
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

// showAll prints what the states of several instances record.
func showAll(c *cli.Console, of *instances.Selection) error {
	c.Start()
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	first := true
	for _, in := range of.List {
		path := of.Record.StatePath(in)
		st, found, err := of.Record.ReadState(in, home)
		if err != nil {
			return err
		}
		if !found {
			continue // it was not created yet
		}
		if !c.JSON() {
			c.Print(func(out *ui.Writer) { ui.Heading(out, in.Name(), first) })
		}
		first = false
		if err := printState(c, path, st); err != nil {
			return err
		}
	}
	return nil
}

// read reads the state, which must exist.
func (s stateFile) read(ctx context.Context) (state.State, error) {
	st, found, err := file.Read(s.path, s.opts.Home)
	switch {
	case err == nil && !found:
		err = cmp.Or(instance.Options{Team: s.opts.Team}.FindLost(ctx, s.path), error(&file.MissingError{Path: s.name}))
	case err == nil && s.opts.Owns != nil:
		err = s.opts.Owns(st)
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
