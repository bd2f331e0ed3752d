package manifests

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/deployer/instance"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

func newInterpolate(c *cli.Console) *cobra.Command {
	var (
		inputs                document.Options
		path, address         string
		errMissing, errUnused bool
	)
	cmd := &cobra.Command{
		Use:     "interpolate MANIFEST",
		Aliases: []string{"int"},
		Short:   "Print a manifest with its operations and variables",
		Long: `Interpolate applies operations files to a YAML file, interpolates variables, and
prints the result, WITH ITS SECRETS, on standard output. MANIFEST may be any
YAML file, or - for standard input. Variables without a value stay as they are.

With --vars-store, variables with a type and without a value are generated and
stored in that file. With --cloud-config, the keys of the cloud config are added to
the manifest, as for a deploy.`,
		Example: `  bootstrap interpolate bosh.yml -o docker/cpi.yml -l vars.yml
  bootstrap interpolate creds.yml --path /admin_password`,
		Args: cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			inputs.Generate = document.Write
			state, err := varsOfTeam(cmd.Context(), c, &inputs, address)
			if err != nil {
				return err
			}
			defer sourced(c, &inputs)()
			inputs.Generating = generating(c, inputs, args[0], state)
			doc, err := document.Evaluate(cmd.Context(), args[0], inputs)
			if err != nil {
				return err
			}
			if err := checkNames(doc, errMissing, errUnused); err != nil {
				return err
			}
			for _, w := range document.Problems(doc.Warnings).Shortened() {
				c.Warn(instance.Place(w))
			}
			return c.PrintDocument(doc, cmd.Flags().Changed("path"), path)
		},
	}
	f := cmd.Flags()
	c.VarFlags(f, &inputs)
	varsFlag(f, &address)
	f.Lookup("state").Usage = "use the vars store of the state at this `URL`" // The document may be any file, so variables of the environment do not select a state.
	cli.RecipientFlag(f, inputs.Keys)
	f.StringVar(&path, "path", "", "print only the part at this `PATH`, as in operations files")
	f.BoolVar(&errMissing, "var-errs", false, "fail if a variable has no value")
	f.BoolVar(&errUnused, "var-errs-unused", false, "fail if a given value is not used")
	return cmd
}

// generating returns a function that refuses to generate values if the VM of a deployment
// uses values that are missing in its vars store.
func generating(c *cli.Console, inputs document.Options, manifest, state string) func(context.Context, []string, bool) error {
	return func(_ context.Context, names []string, exists bool) error {
		path, err := file.Path(manifest, state)
		if err != nil {
			return nil // standard input has no state
		}
		home, err := c.BoshHome()
		if err != nil {
			home = ""
		}
		st, found, err := file.Read(path, home)
		if err != nil || !found {
			return nil // deploy reports the error of the state
		}
		shown := cmp.Or(inputs.StoreName, inputs.VarsStore)
		if err := instance.RefuseLostStore(st, path, shown, exists, inputs.SaveStore != nil); err != nil {
			return err
		}
		if used := instance.UsedAlready(st, names); len(used) > 0 {
			return fmt.Errorf("the VM uses values of %s that the vars store %s does not have, and interpolate does not replace them: restore them, or let deploy generate new ones; it asks before", strings.Join(used, ", "), shown)
		}
		return nil
	}
}

// checkNames returns the error that --var-errs or --var-errs-unused requests.
func checkNames(doc *document.Document, missing, unused bool) error {
	if missing && len(doc.Missing) > 0 {
		problems := document.Problems(doc.Missing)
		return &problems
	}
	if unused && len(doc.Unused) > 0 {
		return fmt.Errorf("no variable uses these given values: %s", strings.Join(doc.Unused, ", "))
	}
	return nil
}
