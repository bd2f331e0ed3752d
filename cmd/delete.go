package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/deployer"
	"bootstrap/state"
)

func newDelete(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	cmd := &cobra.Command{
		Use:   "delete MANIFEST",
		Short: "Take down the VM, its disk and its stemcell",
		Long: `Delete stops the jobs, deletes the VM, THE PERSISTENT DISK WITH ITS DATA, the
stemcell, the installed CPI and the state file. A delete that was interrupted
goes on when it is run again. On the machine that deployed it needs neither the
manifest's content nor its variables nor downloads. Orphaned disks are kept.

A terminal is asked before a disk is deleted, wherever the output goes. Without
a terminal on standard input a disk is deleted only with --yes.`,
		Example: "  bootstrap delete manifest.yml\n  bootstrap delete manifest.yml --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = args[0]
			opts.Inputs.Lenient = true
			opts.Confirm = c.confirm(ask)
			err := c.deployment(cmd.Context(), opts, deployer.Delete)
			var missing *state.MissingError
			if errors.As(err, &missing) {
				return fmt.Errorf("%w; with --skip-if-missing delete succeeds when there is nothing to delete", err)
			}
			return err
		},
	}
	c.commonFlags(cmd.Flags(), &opts)
	ask.flags(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&opts.KeepDisk, "keep-disk", false, "keep the persistent disk as an orphan, see bootstrap disks")
	f.BoolVar(&opts.Fix, "fix", false, "delete a VM whose agent does not answer, without stopping its jobs")
	f.BoolVar(&opts.SkipIfMissing, "skip-if-missing", false, "a missing state file is no error: there is nothing to delete")
	return cmd
}
