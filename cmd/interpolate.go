package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/manifest"
)

func newInterpolate(c *console) *cobra.Command {
	var (
		inputs                manifest.Options
		path                  string
		errMissing, errUnused bool
	)
	cmd := &cobra.Command{
		Use:     "interpolate MANIFEST",
		Aliases: []string{"int"},
		Short:   "Print a manifest with its operations and variables",
		Long: `Interpolate applies operations files to a YAML file, fills in variables, and
prints the result, WITH ITS SECRETS, on standard output. MANIFEST may be any
YAML file, or - for standard input. Variables without a value stay as they are.

With --vars-store, variables that have a type and no value are generated and
kept in that file.`,
		Example: `  bootstrap interpolate bosh.yml -o docker/cpi.yml -l vars.yml
  bootstrap interpolate creds.yml --path /admin_password`,
		Args: oneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			inputs.Generate = manifest.Write
			document, err := manifest.Evaluate(args[0], inputs)
			if err != nil {
				return err
			}
			if err := checkNames(document, errMissing, errUnused); err != nil {
				return err
			}
			return c.printDocument(document, cmd.Flags().Changed("path"), path)
		},
	}
	f := cmd.Flags()
	c.varFlags(f, &inputs)
	f.StringVar(&path, "path", "", "print only what is at this `PATH`, as operations files write it")
	f.BoolVar(&errMissing, "var-errs", false, "fail when a variable has no value")
	f.BoolVar(&errUnused, "var-errs-unused", false, "fail when a value is given that no variable uses")
	return cmd
}

// checkNames returns the error that the flags --var-errs and --var-errs-unused
// ask for.
func checkNames(document *manifest.Document, missing, unused bool) error {
	if missing && len(document.Missing) > 0 {
		problems := manifest.Problems(document.Missing)
		return &problems
	}
	if unused && len(document.Unused) > 0 {
		return fmt.Errorf("values are given that no variable uses: %s", strings.Join(document.Unused, ", "))
	}
	return nil
}

// printDocument prints a document, or what stands at a path of it, past the
// redactor: it is what was asked for.
func (c *console) printDocument(document *manifest.Document, part bool, path string) error {
	if part {
		found, err := document.Find(path)
		if err != nil {
			return err
		}
		if text, ok := found.Text(); ok {
			c.product("document", text+"\n")
			return nil
		}
		document = found
	}
	data, err := document.YAML()
	if err != nil {
		return err
	}
	c.product("document", string(data))
	return nil
}
