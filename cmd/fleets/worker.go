package fleets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/fleet/queue"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
	"bootstrap/manifest/document"
)

// The largest and the default number of members that a worker runs at the same time.
const (
	usualWidth = 2
	mostWidth  = 1000
)

func newWorker(c *cli.Console) *cobra.Command {
	var inputs document.Options
	var database string
	var members []string // flags for every member
	var width int
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Update members that fleet deploy --workers hands out",
		Long: `Worker waits for members of any fleet in a PostgreSQL database and updates them,
until Ctrl-C. Run it on as many machines as wanted. The files of the fleet and its
members must be at the same paths as for fleet deploy, on a shared folder. Give
variables, --ruby, --var-source, --pass-env and --package-dir here, too: a worker
starts no program that a database names. It obeys only coordinators with the same
fleet.key in ~/.bosh. See "On several machines" in docs/fleet.md.

The first Ctrl-C takes no other member and waits for the running ones. A second one
asks these to end at their next safe step; other workers continue them. After a
third, they continue alone.`,
		Example: "  bootstrap fleet worker --database 'postgres://bootstrap@db.internal/fleets?sslmode=verify-full'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Start()
			if err := findQueue(c, cmd, &database, "fleet worker"); err != nil {
				return err
			}
			if width < 1 || width > mostWidth {
				return cli.WrongUsage(cmd, fmt.Errorf("--width: expected a number from 1 to %d, but got %d", mostWidth, width))
			}
			return runWorker(cmd.Context(), c, inputs, database, width, members)
		},
	}
	f := cmd.Flags()
	fleetInputs(c, f, &inputs)
	cli.DatabaseFlag(f, &database)
	f.Lookup("database").Usage = "the `URL` postgres://user@host/database (or BOOTSTRAP_DATABASE)"
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	passFlags(f, own, &members, ownFlags())
	f.IntVar(&width, "width", usualWidth, "update up to `N` members at the same time")
	return cmd
}

// workersFlag adds the flag of commands whose members workers can run.
func workersFlag(f *pflag.FlagSet, workers *bool) {
	f.BoolVar(workers, "workers", false, "have bootstrap fleet worker update the members, on several machines")
}

// findQueue fills in the database in which coordinators and workers meet.
func findQueue(c *cli.Console, cmd *cobra.Command, address *string, command string) error {
	if err := c.FindDatabase(address); err != nil {
		return err
	}
	if !queue.IsDatabase(*address) {
		return cli.WrongUsage(cmd, fmt.Errorf("%s needs a PostgreSQL database: --database postgres://user@host/database, or BOOTSTRAP_DATABASE", command))
	}
	return nil
}

func runWorker(ctx context.Context, c *cli.Console, inputs document.Options, database string, width int, members []string) error {
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program's own path: %w", err)
	}
	defer owner.GiveBack(home)
	key, err := queue.ReadKey(home)
	if err != nil {
		return err
	}
	c.ReportTo(c.Out()) // where finish prints the end of the command
	show := ui.WorkerPlain(c.Writer(c.Out()))
	if c.JSON() {
		show = ui.WorkerJSON(c.Redactor.Lines(c.Out()))
	}
	if c.Events() != nil {
		shown, record := show, ui.WorkerJSON(c.Events())
		show = func(e queue.Event) {
			shown(e)
			record(e)
		}
	}
	program := rollout.Program{Self: self, Flags: members, Env: append(environment.ForMembers(c.Env), "BOOTSTRAP_DATABASE="+database)}
	defer shareRuby(ctx, c, home, &program)()
	return queue.Run(ctx, queue.Work{
		Database: database, Width: width, By: c.Holder(), Program: program, Next: func(path string) string { return fleetArgs(path, inputs) }, Key: key, Current: rollout.Current,
		Read:   func(path string) (*fleet.Fleet, error) { return readFleet(ctx, c, path, inputs) },
		Redact: c.Redactor.String, Report: show, Urgent: c.Signals.Second(),
	})
}

// coordinate makes this process the coordinator of workers. The caller must call end.
func coordinate(cmd *cobra.Command, c *cli.Console, opts *rollout.Options, database string) (end func(), err error) {
	if err := findQueue(c, cmd, &database, "--workers"); err != nil {
		return nil, err
	}
	key, err := queue.ReadKey(opts.Home)
	if err != nil {
		return nil, err
	}
	q, err := queue.Coordinate(cmd.Context(), queue.Options{Database: database, Fleet: opts.Fleet.Path, Flags: opts.Program.Flags, Key: key, By: opts.By})
	if err != nil {
		return nil, err
	}
	opts.Hands = q.Hands
	// The folder of the logs is beside the fleet file, so that coordinator and workers have
	// the same.
	opts.Logs = strings.TrimSuffix(opts.Fleet.Path, filepath.Ext(opts.Fleet.Path)) + "-run.logs"
	return q.Close, nil
}
