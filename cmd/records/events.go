package records

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/observe"
	"bootstrap/state/file"
)

func newEvents(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "events {MANIFEST | --state FILE}",
		Short: "List who has changed the deployment, when and how",
		Long: `Events lists the commands that have changed the deployment, the newest first: who ran
them and when, how they ended, and what they changed. It knows the last 200 runs on
this machine, and of other machines those of which a version of the state is kept.
Of several instances it lists those of all, or of --instance.`,
		Example: "  bootstrap events manifest.yml\n  bootstrap events manifest.yml --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Mistaken(cmd, args, 1); err != nil {
				return err
			}
			list, err := choice.events(cmd, args)
			if err != nil {
				return err
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "event", list)
				return nil
			}
			c.Print(func(out *ui.Writer) { ui.Events(out, list) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

// events returns the events of the state that was chosen, or of several instances.
func (s *stateChoice) events(cmd *cobra.Command, args []string) ([]observe.SeenEvent, error) {
	all, list, chosen, err := s.recorded(cmd, args)
	if err != nil {
		return nil, err
	}
	home, err := s.c.BoshHome()
	if err != nil {
		return nil, err
	}
	if all == nil {
		return eventsOf(cmd.Context(), chosen, home)
	}
	s.c.Start()
	events := []observe.SeenEvent{}
	for _, in := range list {
		versions, err := file.Versions(all.StatePath(in))
		if err != nil {
			return nil, err
		}
		for _, e := range observe.Events(home, versions) {
			e.Instance = in.Name()
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b observe.SeenEvent) int { return b.Time.Compare(a.Time) })
	return events, nil
}

// eventsOf returns the events of a state, which must exist.
func eventsOf(ctx context.Context, s stateFile, home string) ([]observe.SeenEvent, error) {
	if _, err := s.read(); err != nil {
		return nil, err
	}
	versions, err := s.versions(ctx)
	if err != nil {
		return nil, err
	}
	return observe.Events(home, versions), nil
}
