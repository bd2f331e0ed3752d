package deploy

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/state/file"
)

func newDelete(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:        "delete {MANIFEST | --state FILE}",
		SuggestFor: []string{"destroy", "down"},
		Short:      "Delete the VM, its disk and its stemcell",
		Long: `Delete stops the jobs and deletes the VM, THE PERSISTENT DISK WITH ITS DATA, the
stemcell, the installed CPI and the state file. To continue an interrupted delete,
run it again. On the machine that deployed, it needs neither the contents of the
manifest nor variables nor downloads. Orphaned disks are kept, unless
--orphaned-disks is given. With several instances, a delete of all also deletes
orphaned disks, unless --keep-disk or --orphaned-disks=false is given.

On a terminal it asks before it deletes the VM. Without a terminal on standard input
it deletes a disk only with --yes.`,
		Example: "  bootstrap delete manifest.yml\n  bootstrap delete manifest.yml --yes",
		Args:    cli.ManifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = cli.Manifest(args)
			opts.Inputs.Lenient = true
			opts.Confirm = c.Confirm(ask)
			s, err := severalOf(c, cmd, &opts, ask)
			if err != nil {
				return err
			}
			if s != nil {
				return s.delete()
			}
			err = c.Deployment(cmd.Context(), opts, deployer.Delete)
			var missing *file.MissingError
			if errors.As(err, &missing) {
				return fmt.Errorf("%w; with --skip-if-missing, delete succeeds if there is nothing to delete", err)
			}
			return err
		},
	}
	f := cmd.Flags()
	c.InputFlags(f, &opts.Inputs)
	cli.DatabaseFlag(f, &opts.Database)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.LockFlag(f, &opts.LockWait)
	cli.SkipDrainFlag(f, &opts)
	cli.CPIFlags(f, &opts)
	cli.AgentFlags(f, &opts)
	cli.AnswerFlag(f, &opts)
	ask.Flags(f)
	c.TimingsFlag(f)
	f.BoolVar(&opts.KeepDisk, "keep-disk", false, "keep the persistent disk as an orphaned one, see bootstrap disks")
	f.BoolVar(&opts.OrphanedDisks, "orphaned-disks", false, "also delete orphaned disks (the default for all instances)")
	f.BoolVar(&opts.Fix, "fix", false, "delete a VM whose agent is silent or busy, without stopping its jobs")
	f.BoolVar(&opts.SkipIfMissing, "skip-if-missing", false, "succeed if there is no state file")
	return cmd
}
