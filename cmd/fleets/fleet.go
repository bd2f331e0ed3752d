// Package fleets has the commands for fleets of deployments.
package fleets

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
)

// New returns the command fleet with its subcommands.
func New(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Update many deployments: canaries first, then many at the same time",
		Long: `A fleet is a list of deployments with the rules by which they are updated: how many
canaries first, how many at the same time, in which waves. The fleet file describes
both. See docs/fleet.md.`,
		Args: cli.NoArgs,
		RunE: c.Help,
	}
	cmd.AddCommand(newPlan(c), newDeploy(c), newRecreate(c), newDelete(c), newLifecycle(c, fleet.StopStrategy), newLifecycle(c, fleet.StartStrategy), newLifecycle(c, fleet.RestartStrategy), newRunErrand(c), newStatus(c), newReport(c), newWorker(c),
		newAsk(c, rollout.Pause, "Start no other member in the running run", "Pause lets the running members end. The run waits until bootstrap fleet resume."),
		newAsk(c, rollout.Resume, "Let a paused run start members again", "Resume ends a pause."),
		newAsk(c, rollout.Abort, "End the running run", "Abort starts no other member and asks the running ones to end at their next safe step.\nThe next bootstrap fleet deploy begins a new run, also after one that was killed."),
	)
	return cmd
}

// newAsk returns a command that sends a request to a running run.
func newAsk(c *cli.Console, wish rollout.Wish, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:     string(wish) + " FLEET",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  bootstrap fleet %s fleet.yml", wish),
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			absolute, err := fleetPath(c, args[0])
			if err != nil {
				return err
			}
			return rollout.Ask(absolute, wish, c.Holder())
		},
	}
}

// oneFleet checks the arguments of commands about a fleet file.
func oneFleet(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New(strings.TrimPrefix(cmd.CommandPath(), "bootstrap ") + " needs a fleet file: " + cli.Form(cmd))
	case len(args) > 1:
		return cli.TooMany(cmd, args[1:])
	}
	return nil
}
