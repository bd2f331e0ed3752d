package manifests

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
)

func newValidate(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "validate MANIFEST",
		Short: "Check a manifest without deploying it",
		Long: `Validate checks a manifest with its operations and variables, also against the
releases and the stemcell on this machine, and renders the templates. It generates
nothing, connects only to the store that --state names, and says what it could not
check.`,
		Example: "  bootstrap validate bosh.yml -o docker/cpi.yml -l vars.yml --vars-store creds.yml",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportBy(func(report.Event) {}) // print only the result
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error { return validate(ctx, c, opts) })
		},
	}
	c.VarFlags(cmd.Flags(), &opts.Inputs)
	varsFlag(cmd.Flags(), &opts.StateFile)
	cli.InstanceFlag(cmd.Flags(), &opts.Options)
	cli.RubyFlag(cmd.Flags(), &opts.Ruby)
	return cmd
}

// Unchecked is something that could not be checked, as --json prints it.
type Unchecked struct {
	Kind string `json:"kind"` // "unchecked"
	What string `json:"what"`
	Why  string `json:"why"`
}

func validate(ctx context.Context, c *cli.Console, opts deployer.Options) error {
	found, err := deployer.Validate(ctx, opts)
	if err != nil {
		return err
	}
	if c.JSON() {
		out := c.Redactor.Lines(c.Out())
		cli.PrintProblems(out, found.Warnings)
		for _, u := range found.Unchecked {
			out.Print("", Unchecked{"unchecked", u.What, u.Why})
		}
		return nil
	}
	c.Print(func(out *ui.Writer) {
		for _, w := range found.Warnings.Shortened() {
			fmt.Fprintln(out, w)
		}
		fmt.Fprintf(out, "%s is valid.\n", opts.Manifest)
		for _, u := range found.Unchecked {
			fmt.Fprintf(out, "Not checked: %s: %s\n", u.What, u.Why)
		}
	})
	return nil
}
