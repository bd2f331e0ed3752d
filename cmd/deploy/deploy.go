package deploy

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/deployer"
)

func newDeploy(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var ask cli.Asking
	var plan string
	var some someInstances
	var from earlier
	cmd := &cobra.Command{
		Use:        "deploy MANIFEST",
		SuggestFor: []string{"up", "apply"},
		Short:      "Create or change the VM as the manifest says",
		Long: `Deploy creates the VM, or changes it to what the manifest describes: in place if
possible, with a new VM only if necessary. The persistent disk and its data stay. It
prints a plan with a reason for each change, asks on a terminal before it destroys
anything, and does exactly that. Every CID is recorded in the state file. To continue
an interrupted deploy, run it again. Several instances: docs/deployments.md.`,
		Example: "  bootstrap deploy manifest.yml\n  bootstrap deploy bosh.yml -o docker/cpi.yml --vars-store creds.yml -v director_name=lab\n  bootstrap plan manifest.yml --out plan.json && bootstrap deploy manifest.yml --plan plan.json",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			if err := from.refused(cmd); err != nil {
				return err
			}
			opts.Confirm = c.Confirm(ask)
			c.NameTarget(&opts)
			s, err := severalOf(c, cmd, &opts, ask)
			if err != nil {
				return err
			}
			if s != nil {
				if err := some.choose(s); err != nil {
					return err
				}
				s.earlier = from
				return s.deploy(plan)
			}
			if err := some.refused(cmd); err != nil {
				return err
			}
			if plan != "" {
				var err error
				if opts.Planned, err = readPlan(plan); err != nil {
					return err
				}
			}
			if opts.Instance != "" {
				keepOldDisk(cmd, &opts)
			}
			return c.Deployment(cmd.Context(), opts, from.before(instances.SendingNames(c, cmd, deployer.Deploy)))
		},
	}
	c.DeployFlags(cmd.Flags(), &opts)
	cli.InstanceFlag(cmd.Flags(), &opts.Options)
	cli.PlanFlags(cmd.Flags(), &opts)
	ask.Flags(cmd.Flags())
	f := cmd.Flags()
	adoptFlags(f, &opts)
	createdFlag(f, &opts)
	templatesFlag(f, &opts)
	some.flags(f)
	cli.WidthFlags(f, &opts)
	c.TimingsFlag(f)
	f.BoolVar(&opts.Recreate, "recreate", false, "replace the VM even if nothing changed")
	f.BoolVar(&opts.Probe, "probe-addresses", false, "warn of newly reserved addresses that answer already")
	f.BoolVar(&opts.Previous, previousFlag, false, "go back to the last version that worked, or the one before it")
	from.flags(f, "deploy version `N` of state backups again, with its inputs")
	f.StringVar(&plan, "plan", "", "do exactly the plan in this `FILE` of plan --out, or refuse")
	return cmd
}

// createdFlag adds the flag with which a recreate of a fleet or of several instances, which
// was killed or has failed, is continued without replacing a VM twice.
func createdFlag(f *pflag.FlagSet, opts *deployer.Options) {
	const name = "created-before"
	f.TimeVar(&opts.CreatedBefore, name, time.Time{}, []string{time.RFC3339}, "replace the VM only if it was created before this `DATE`")
	f.Lookup(name).Hidden = true
}

// adoptFlags adds the flags for a VM that another tool created.
func adoptFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringVar(&opts.AdoptFrom, "adopt-from", "", "the `MANIFEST` from which another tool created the VM")
	f.BoolVar(&opts.AdoptVM, "adopt-vm", false, "accept a VM that another tool created as it is")
}

// templatesFlag adds the flag that shows more of a plan.
func templatesFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.Templates, "templates", false, "show how the rendered files differ from those that run")
}
