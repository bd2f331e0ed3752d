package deploy

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/deployer"
)

// newRecreate returns the command recreate, which is deploy --recreate.
func newRecreate(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:     "recreate MANIFEST",
		Short:   "Replace the VM: deploy --recreate",
		Long:    "Recreate does the same as deploy --recreate: it replaces the VM even if nothing\nchanged. The new VM gets the persistent disk. Several instances are replaced in the\norder of a deploy.",
		Example: "  bootstrap recreate manifest.yml",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest, opts.Recreate, opts.Existing = args[0], true, true
			opts.Confirm = c.Confirm(ask)
			s, err := severalOf(c, cmd, &opts, ask)
			if err != nil {
				return err
			}
			if s != nil {
				s.opts.Existing = false // those that do not exist are created
				return s.deploy("")
			}
			if opts.Instance != "" {
				keepOldDisk(cmd, &opts)
			}
			return c.Deployment(cmd.Context(), opts, instances.SendingNames(c, cmd, deployer.Deploy))
		},
	}
	c.DeployFlags(cmd.Flags(), &opts)
	cli.InstanceFlag(cmd.Flags(), &opts.Options)
	cli.PlanFlags(cmd.Flags(), &opts)
	createdFlag(cmd.Flags(), &opts)
	cli.WidthFlags(cmd.Flags(), &opts)
	c.TimingsFlag(cmd.Flags())
	ask.Flags(cmd.Flags())
	return cmd
}
