package cmd

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/usage"
	"bootstrap/deployer"
)

func newDeploy(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	var plan string
	cmd := &cobra.Command{
		Use:        "deploy MANIFEST",
		SuggestFor: []string{"up", "apply"},
		Short:      "Create or change the VM as the manifest says",
		Long: `Deploy creates the VM, or changes it to what the manifest says. It first looks at
what exists, prints a plan with a reason for each change, and does exactly that: it
creates what is missing, changes in place what can be changed in place, and replaces
the VM only if necessary. The persistent disk and its data stay. On a terminal it
asks before it destroys anything. Every CID is recorded in the state file, beside
the manifest unless --state names another. To continue an interrupted deploy, run it
again.`,
		Example: "  bootstrap deploy manifest.yml\n  bootstrap deploy bosh.yml -o docker/cpi.yml --vars-store creds.yml -v director_name=lab\n  bootstrap plan manifest.yml --out plan.json && bootstrap deploy manifest.yml --plan plan.json",
		Args:    usage.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = args[0]
			opts.Confirm = c.confirm(ask)
			c.target = &opts
			if plan != "" {
				var err error
				if opts.Planned, err = readPlan(plan); err != nil {
					return err
				}
			}
			return c.deployment(cmd.Context(), opts, deployer.Deploy)
		},
	}
	c.deployFlags(cmd.Flags(), &opts)
	planFlags(cmd.Flags(), &opts)
	ask.flags(cmd.Flags())
	f := cmd.Flags()
	adoptFlags(f, &opts)
	templatesFlag(f, &opts)
	timingsFlag(c, f)
	f.BoolVar(&opts.Recreate, "recreate", false, "replace the VM even if nothing changed")
	f.BoolVar(&opts.Probe, "probe-addresses", false, "warn of newly reserved addresses that answer already")
	f.BoolVar(&opts.Previous, "previous", false, "go back to the last version that worked, or the one before it")
	f.StringVar(&plan, "plan", "", "do exactly the plan in this `FILE` of plan --out, or refuse")
	return cmd
}
