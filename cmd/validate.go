package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

func newValidate(c *console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "validate MANIFEST",
		Short: "Check a manifest without deploying it",
		Long: `Validate checks a manifest with its operations and variables, also against the
releases and the stemcell that are on this machine, and renders the templates. It
generates nothing, makes no connections but to the store of a team that --state names,
and says what it could not check. With --json, there is one object per line for each
finding.`,
		Example: "  bootstrap validate bosh.yml -o docker/cpi.yml -l vars.yml --vars-store creds.yml",
		Args:    usage.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = args[0]
			c.report = func(report.Event) {} // print only the result
			return c.deployment(cmd.Context(), opts, c.validate)
		},
	}
	c.varFlags(cmd.Flags(), &opts.Inputs)
	varsFlag(cmd.Flags(), &opts.StateFile)
	rubyFlag(cmd.Flags(), &opts.Ruby)
	return cmd
}

// unchecked is something that could not be checked, as --json prints it.
type unchecked struct {
	Kind string `json:"kind"` // "unchecked"
	What string `json:"what"`
	Why  string `json:"why"`
}

func (c *console) validate(ctx context.Context, opts deployer.Options) error {
	found, err := deployer.Validate(ctx, opts)
	if err != nil {
		return err
	}
	if c.json {
		out := c.redactor.Lines(c.out)
		printEach(out, found.Warnings)
		for _, u := range found.Unchecked {
			out.Print("", unchecked{"unchecked", u.What, u.Why})
		}
		return nil
	}
	c.print(func(out *ui.Writer) {
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

// problem is a problem of the manifest as --json prints it.
type problem struct {
	Kind    string `json:"kind"` // "problem"
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Explain string `json:"explain,omitempty"` // the NAME of bootstrap explain
	Warning bool   `json:"warning,omitempty"`
}

func problemLine(p document.Problem) problem {
	return problem{"problem", p.Pos.File, p.Pos.Line, p.Pos.Column, p.Path, p.Message, p.Name, p.Warning}
}

// printProblems prints err as objects if it contains problems of a manifest.
func printProblems(out *ui.Lines, err error) {
	var problems *document.Problems
	if errors.As(err, &problems) {
		printEach(out, *problems)
	}
}

func printEach(out *ui.Lines, problems document.Problems) {
	for _, p := range problems.Shortened() {
		out.Print("", problemLine(p))
	}
}
