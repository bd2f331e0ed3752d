package fleets

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/manifest/document"
)

func newStatus(c *cli.Console) *cobra.Command {
	var inputs document.Options
	var members []string // flags for every member
	var now bool
	cmd := &cobra.Command{
		Use:   "status FLEET",
		Short: "Show the result of each member in the last run, or its present status",
		Long: `Status shows the current or last run: the verdict of each member, how long it took,
how long its service was down, and why it failed. It asks no VM.

With --now, it asks every member, as bootstrap status does. The exit code is
0 if all members run and are well, and 1 if not. Variables of the fleet file must be
given.`,
		Example: "  bootstrap fleet status fleet.yml\n  bootstrap fleet status fleet.yml --now\n  bootstrap fleet status fleet.yml --json",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			if now {
				return fleetNow(cmd.Context(), c, args[0], inputs, members)
			}
			if len(members) > 0 {
				name, _, _ := strings.Cut(members[0], "=")
				return cli.WrongUsage(cmd, fmt.Errorf("%s needs --now", name))
			}
			r, err := lastRun(cmd.Context(), c, args[0], inputs)
			if err != nil {
				return err
			}
			if c.JSON() {
				c.PrintObject("fleet_run", r)
				return nil
			}
			running := rollout.Running(r.Fleet)
			c.Print(func(out *ui.Writer) { ui.FleetStatus(out, r, running) })
			return nil
		},
	}
	f := cmd.Flags()
	fleetInputs(c, f, &inputs)
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	passFlags(f, own, &members, statusFlags())
	f.BoolVar(&now, "now", false, "ask every member for its present status")
	return cmd
}

// fleetNow asks every member for its present status, and prints that.
func fleetNow(ctx context.Context, c *cli.Console, path string, inputs document.Options, flags []string) error {
	c.Start()
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program's own path: %w", err)
	}
	f, err := readFleet(ctx, c, path, inputs)
	if err != nil {
		return err
	}
	old, err := rollout.Load(f.Path)
	if err != nil {
		return err
	}
	program := rollout.Program{Self: self, Env: environment.ForMembers(c.Env), Flags: flags, Fleet: fleetArgs(f.Path, inputs)}
	n, err := rollout.AskNow(ctx, program, f, f.Members, old.RemovedFrom(f, home))
	if err != nil {
		return err
	}
	if c.JSON() {
		c.PrintObject("fleet_members", n)
	} else {
		c.Print(func(out *ui.Writer) { ui.FleetNow(out, n) })
	}
	if !n.Well {
		return exit.Code(exit.Failed)
	}
	return nil
}

// lastRun returns the record of the last run of a fleet, with the members that were
// removed from the fleet file since, if the file can be read.
func lastRun(ctx context.Context, c *cli.Console, path string, inputs document.Options) (*rollout.Record, error) {
	absolute, err := fleetPath(c, path)
	if err != nil {
		return nil, err
	}
	r, err := rollout.Load(absolute)
	if err == nil && r == nil {
		err = &rollout.NotRunningError{Fleet: path}
	}
	if err != nil {
		return nil, err
	}
	home, err := c.BoshHome()
	if err != nil {
		return nil, err
	}
	f, err := fleet.Read(ctx, absolute, inputs, outside(c, absolute))
	if err != nil {
		f = nil // its variables or the file are missing
	}
	r.Removed = r.RemovedFrom(f, home)
	return r, nil
}
