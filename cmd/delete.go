package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/deployer"
	"bootstrap/state/file"
)

func newDelete(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	cmd := &cobra.Command{
		Use:        "delete {MANIFEST | --state FILE}",
		SuggestFor: []string{"delete-env", "destroy", "down"},
		Short:      "Take down the VM, its disk and its stemcell",
		Long: `Delete stops the jobs, deletes the VM, THE PERSISTENT DISK WITH ITS DATA, the
stemcell, the installed CPI and the state file. A delete that was interrupted
goes on when it is run again. On the machine that deployed it needs neither the
manifest's content nor its variables nor downloads. Orphaned disks are kept.

A terminal is asked before a disk is deleted, wherever the output goes. Without
a terminal on standard input a disk is deleted only with --yes.`,
		Example: "  bootstrap delete manifest.yml\n  bootstrap delete manifest.yml --yes",
		Args:    manifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = first(args)
			opts.Inputs.Lenient = true
			opts.Confirm = c.confirm(ask)
			err := c.deployment(cmd.Context(), opts, deployer.Delete)
			var missing *file.MissingError
			if errors.As(err, &missing) {
				return fmt.Errorf("%w; with --skip-if-missing delete succeeds when there is nothing to delete", err)
			}
			return err
		},
	}
	f := cmd.Flags()
	c.inputFlags(f, &opts.Inputs)
	stateFlag(f, &opts.StateFile)
	lockFlag(f, &opts.LockWait)
	skipDrainFlag(f, &opts)
	cpiFlags(f, &opts)
	agentFlags(f, &opts)
	answerFlag(f, &opts)
	ask.flags(f)
	f.BoolVar(&opts.KeepDisk, "keep-disk", false, "keep the persistent disk as an orphan, see bootstrap disks")
	f.BoolVar(&opts.Fix, "fix", false, "delete a VM whose agent is silent or busy, without stopping its jobs")
	f.BoolVar(&opts.SkipIfMissing, "skip-if-missing", false, "succeed where there is no state file: nothing to delete")
	return cmd
}
