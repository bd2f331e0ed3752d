package records

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/observe"
	"bootstrap/deployment"
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
With several instances, it lists the commands about all, with their parts on each, or
those on the instances of --instance.`,
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
	whole := s.one.Instance == "" && (all != nil || chosen.opts.Team == nil)
	if all == nil {
		return eventsOfOne(cmd.Context(), chosen, home, whole)
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
	if whole {
		more, err := eventsOfAll(cmd.Context(), chosen, home, events)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return newestFirst(events), nil
}

// eventsOfOne returns the events of a state. With whole, it adds the events of the
// deployment, if that had several instances.
func eventsOfOne(ctx context.Context, one stateFile, home string, whole bool) (events []observe.SeenEvent, err error) {
	if whole {
		if events, err = eventsOfAll(ctx, one, home, nil); err != nil {
			return nil, err
		}
	}
	own, err := eventsOf(ctx, one, home)
	if _, missing := errors.AsType[*file.MissingError](err); missing && len(events) > 0 {
		err = nil // Its instances are deleted.
	}
	return newestFirst(append(events, own...)), err
}

func newestFirst(list []observe.SeenEvent) []observe.SeenEvent {
	slices.SortStableFunc(list, func(a, b observe.SeenEvent) int { return b.Time.Compare(a.Time) })
	return list
}

// eventsOfAll returns the events of a deployment as a whole, if it has or had several
// instances. known are the events of its instances.
func eventsOfAll(ctx context.Context, of stateFile, home string, known []observe.SeenEvent) ([]observe.SeenEvent, error) {
	at := of.place()
	list, err := at.Versions(ctx)
	if err != nil {
		return nil, err
	}
	var versions []observe.SeenVersion
	for _, v := range list {
		if v.Err == nil {
			versions = append(versions, observe.SeenVersion{First: v.Serial == 1, Written: v.Written, By: v.By, Command: v.Command, Resources: deployment.Owned(v)})
		}
	}
	return observe.EventsOfSeveral(home, at.Dir(), versions, known), nil
}

// eventsOf returns the events of a state, which must exist.
func eventsOf(ctx context.Context, s stateFile, home string) ([]observe.SeenEvent, error) {
	if _, err := s.read(ctx); err != nil {
		return nil, err
	}
	if err := file.PullHistory(ctx, s.opts.Team); err != nil {
		return nil, err
	}
	versions, err := file.Versions(s.path)
	if err != nil {
		return nil, err
	}
	return observe.Events(home, versions), nil
}
