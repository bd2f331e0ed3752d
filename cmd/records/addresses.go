package records

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/ledger"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/network"
)

func newAddresses(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "addresses",
		Short: "List the addresses that deployments share; check, adopt or release some",
		Long: `The ledger records which instance of which deployment has which address. Deployments
with a cloud config use it: a deploy reserves addresses, and delete releases them. It
is ~/.bosh/addresses.db unless --database or BOOTSTRAP_DATABASE names another file or
a PostgreSQL database. See docs/addresses.md.`,
		Args: cli.NoArgs,
		RunE: c.Help,
	}
	cmd.AddCommand(newAddressesList(c), newAddressesCheck(c), newAddressesAdopt(c), newAddressesRelease(c))
	return cmd
}

func newAddressesList(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "list [MANIFEST...]",
		Short: "List who has which address, and since when",
		Long: `List prints all reservations of the ledger, with manifests those of these
deployments, with --cloud-config those on the networks of that file. The
addresses of a deployment without a cloud config are in its state: name its manifest
to see them. List locks nothing, and asks neither agents nor the cloud.`,
		Example: "  bootstrap addresses list\n  bootstrap addresses list --cloud-config cloud.yml --json",
		Args:    anyManifests,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onLedger(cmd.Context(), c, opts, func(ctx context.Context, opts deployer.Options) error {
				var place string
				return printAddresses(c, func(each func(observe.HeldAddress)) (err error) {
					place, err = observe.Addresses(ctx, opts.Config, observe.LedgerQuery{Manifests: args, StateFile: opts.StateFile, Inputs: opts.Inputs}, each)
					return err
				}, func() string {
					if len(args) > 0 {
						return "No address of these manifests is reserved in " + place + ", or recorded in a state"
					}
					return "No address is reserved in " + place
				})
			})
		},
	}
	c.VarFlags(cmd.Flags(), &opts.Inputs)
	cli.DatabaseFlag(cmd.Flags(), &opts.Database)
	cli.StateFlag(cmd.Flags(), &opts.StateFile)
	return cmd
}

func newAddressesCheck(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "check [MANIFEST...]",
		Short: "Check the ledger, and how many addresses are free and needed",
		Long: `Check looks for mistakes in the ledger. With --cloud-config it also prints for each
subnet how many addresses are free, and looks for reservations that are in no subnet
any more. With manifests, deployed or not, it prints how many addresses they need, and
whether that many are free. It changes nothing.

The exit code is 0 if nothing is wrong, else 1.`,
		Example: "  bootstrap addresses check --cloud-config cloud.yml\n  bootstrap addresses check web.yml db.yml --cloud-config cloud.yml",
		Args:    anyManifests,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onLedger(cmd.Context(), c, opts, func(ctx context.Context, opts deployer.Options) error {
				check, err := observe.CheckAddresses(ctx, opts.Config, observe.LedgerQuery{Manifests: args, StateFile: opts.StateFile, Inputs: opts.Inputs})
				if err != nil {
					return err
				}
				return printLedgerCheck(c, check)
			})
		},
	}
	c.VarFlags(cmd.Flags(), &opts.Inputs)
	cli.DatabaseFlag(cmd.Flags(), &opts.Database)
	cli.StateFlag(cmd.Flags(), &opts.StateFile)
	return cmd
}

func newAddressesAdopt(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "adopt MANIFEST...",
		Short: "Record the addresses of existing deployments in the ledger",
		Long: `Adopt records the addresses of existing VMs in the ledger, if the VMs are older than
the ledger, or if the ledger was lost. It also adopts deployments without a cloud
config, so that no other deployment gets their addresses. It records all addresses or,
if another deployment has one of them, none.`,
		Example: "  bootstrap addresses adopt web.yml db.yml --cloud-config cloud.yml",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.ManifestAnd(cmd, args, math.MaxInt); err != nil {
				return err
			}
			return anyManifests(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return onLedger(cmd.Context(), c, opts, func(ctx context.Context, opts deployer.Options) error {
				adopted, err := ledger.Adopt(ctx, opts.Config, opts.Options, args)
				if err != nil {
					return err
				}
				return printAddresses(c, heldOf(adopted), func() string { return "The ledger has all of these addresses already" })
			})
		},
	}
	c.VarFlags(cmd.Flags(), &opts.Inputs)
	cli.DatabaseFlag(cmd.Flags(), &opts.Database)
	cli.StateFlag(cmd.Flags(), &opts.StateFile)
	cli.LockFlag(cmd.Flags(), &opts.LockWait)
	return cmd
}

func newAddressesRelease(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var what ledger.Selection
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:   "release {ADDRESS | DEPLOYMENT}...",
		Short: "Release addresses of deployments that do not exist any more",
		Long: `Release releases an address, or all addresses of a deployment, named by its name or
its installation id, if its VM does not exist any more and it was not deleted with
bootstrap delete. It refuses if the deployment may exist, unless --force is given. On
a terminal it asks first.`,
		Example: "  bootstrap addresses release 10.0.0.7\n  bootstrap addresses release web --database postgres://user@host/database",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("addresses release needs an address or a deployment: " + cli.Form(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			what.Words = args
			confirm := c.Confirm(ask)
			return onLedger(cmd.Context(), c, opts, func(ctx context.Context, opts deployer.Options) error {
				released, err := ledger.Release(ctx, opts.Config, what, func(ctx context.Context, lines []string) error {
					return cli.Agreed(ctx, confirm, deployer.Question{What: lines})
				})
				if err != nil {
					return err
				}
				return printAddresses(c, heldOf(released), func() string { return "Nothing was released: another run has changed the ledger since" })
			})
		},
	}
	environment.AddFlag(cmd.Flags(), new(string)) // its bootstrap.yml may name the ledger
	cli.DatabaseFlag(cmd.Flags(), &opts.Database)
	ask.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&what.Force, "force", false, "also release addresses of a deployment that exists")
	return cmd
}

// onLedger runs a command about the address ledger. Its result is on standard output, and
// messages are on standard error.
func onLedger(ctx context.Context, c *cli.Console, opts deployer.Options, run func(context.Context, deployer.Options) error) error {
	c.Start()
	c.ReportWarnings(c.ProgressStream())
	err := c.Deployment(ctx, opts, run)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &report.InterruptedError{Look: true} // a transaction is complete, or has no effect
	}
	return err
}

// anyManifests allows any number of manifests; --state is for a single one.
func anyManifests(cmd *cobra.Command, args []string) error {
	switch {
	case slices.Contains(args, ""):
		return errors.New("no manifest was named (the argument is empty)")
	case len(args) != 1 && cmd.Flags().Changed("state"):
		return errors.New("--state is for one manifest: name that one")
	}
	return nil
}

// heldOf returns a function that lists reservations, for printAddresses.
func heldOf(list []network.Reservation) func(each func(observe.HeldAddress)) error {
	return func(each func(observe.HeldAddress)) error {
		for _, r := range list {
			each(observe.Held(r))
		}
		return nil
	}
}

// printAddresses prints the reservations that all lists, perhaps many thousands, or a
// sentence if there are none.
func printAddresses(c *cli.Console, all func(each func(observe.HeldAddress)) error, none func() string) (err error) {
	if c.JSON() {
		out := c.Lines()
		return all(func(a observe.HeldAddress) { out.Print("address", a) })
	}
	c.Print(func(out *ui.Writer) {
		table, found := ui.NewAddresses(out), false
		err = all(func(a observe.HeldAddress) {
			table.Add(a)
			found = true
		})
		switch {
		case err != nil:
		case found:
			table.Print()
		default:
			ui.Say(out, none())
		}
	})
	return err
}

// Finding is a problem of the ledger, in the form of --json.
type Finding struct {
	What string `json:"what"`
}

func printLedgerCheck(c *cli.Console, check *observe.LedgerCheck) error {
	if c.JSON() {
		ui.PrintAll(c.Lines(), "subnet", check.Subnets)
		ui.PrintAll(c.Lines(), "need", check.Needs)
		for _, what := range check.Findings {
			c.PrintObject("finding", Finding{what})
		}
	} else {
		c.Print(func(out *ui.Writer) { ui.LedgerCheck(out, check) })
	}
	if len(check.Findings) > 0 {
		return exit.Code(exit.Failed)
	}
	return nil
}
