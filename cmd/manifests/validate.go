package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

func newValidate(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "validate MANIFEST",
		Short: "Check a manifest without deploying it",
		Long: `Validate checks a manifest with its operations and variables, also against the
releases and the stemcell on this machine, renders the templates, and reads the monit
files as monit does. It generates nothing, connects only to the stores that --state and
--links-from name, and says what it could not check.`,
		Example: "  bootstrap validate bosh.yml -o docker/cpi.yml -l vars.yml --vars-store creds.yml",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportBy(func(report.Event) {}) // print only the result
			names, several, err := instances.Drafted(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				check := deployer.Validate
				if several {
					check = func(ctx context.Context, opts deployer.Options) (deployer.Findings, error) {
						return validateAll(ctx, c, opts, names)
					}
				}
				found, err := check(ctx, opts)
				if err == nil {
					printFindings(c, opts.Manifest, found)
				}
				return err
			})
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

// validateAll checks the manifest for several instances.
func validateAll(ctx context.Context, c *cli.Console, opts deployer.Options, names string) (all deployer.Findings, err error) {
	err = instances.OnDraft(ctx, c, opts, names, func(of *instances.Selection, _ *manifest.Deployment, opts deployer.Options) error {
		found := make([]deployer.Findings, len(of.List))
		errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) (err error) {
			found[i], err = deployer.Validate(ctx, opts)
			return err
		})
		if err := context.Cause(ctx); err != nil { // once, and not for each instance
			return err
		}
		var problems document.Problems // those of all instances, without duplicates
		for i, err := range errs {
			if list, ok := errors.AsType[*document.Problems](err); ok {
				problems, errs[i] = united(problems, *list), nil
			}
		}
		for _, f := range found {
			all.Warnings, all.Unchecked = united(all.Warnings, f.Warnings), united(all.Unchecked, f.Unchecked)
		}
		if err := of.Failed(errs); err != nil || len(problems) == 0 {
			return err
		}
		return &problems
	})
	return all, err
}

// united adds to a list the items of another list that it lacks.
func united[S ~[]T, T comparable](list, other S) S {
	for _, v := range other {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// printFindings prints what was found about a manifest without problems.
func printFindings(c *cli.Console, path string, found deployer.Findings) {
	if c.JSON() {
		out := c.Redactor.Lines(c.Out())
		cli.PrintProblems(out, found.Warnings)
		for _, u := range found.Unchecked {
			out.Print("", Unchecked{"unchecked", u.What, u.Why})
		}
		return
	}
	c.Print(func(out *ui.Writer) {
		for _, w := range found.Warnings.Shortened() {
			fmt.Fprintln(out, w)
		}
		fmt.Fprintf(out, "%s is valid.\n", path)
		for _, u := range found.Unchecked {
			fmt.Fprintf(out, "Not checked: %s: %s\n", u.What, u.Why)
		}
	})
}
