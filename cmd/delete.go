package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/usage"
	"bootstrap/deployer"
	"bootstrap/state/file"
)

func newDelete(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	cmd := &cobra.Command{
		Use:        "delete {MANIFEST | --state FILE}",
		SuggestFor: []string{"destroy", "down"},
		Short:      "Delete the VM, its disk and its stemcell",
		Long: `Delete stops the jobs and deletes the VM, THE PERSISTENT DISK WITH ITS DATA, the
stemcell, the installed CPI and the state file. To continue an interrupted delete,
run it again. On the machine that deployed, it needs neither the contents of the
manifest nor variables nor downloads. Orphaned disks are kept.

On a terminal it asks before it deletes the VM, wherever the output goes. Without a
terminal on standard input it deletes a disk only with --yes.`,
		Example: "  bootstrap delete manifest.yml\n  bootstrap delete manifest.yml --yes",
		Args:    usage.ManifestOrState,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = first(args)
			opts.Inputs.Lenient = true
			opts.Confirm = c.confirm(ask)
			err := c.deployment(cmd.Context(), opts, deployer.Delete)
			var missing *file.MissingError
			if errors.As(err, &missing) {
				return fmt.Errorf("%w; with --skip-if-missing, delete succeeds if there is nothing to delete", err)
			}
			return err
		},
	}
	f := cmd.Flags()
	c.inputFlags(f, &opts.Inputs)
	databaseFlagOf(f, &opts.Database)
	stateFlag(f, &opts.StateFile)
	lockFlag(f, &opts.LockWait)
	skipDrainFlag(f, &opts)
	cpiFlags(f, &opts)
	agentFlags(f, &opts)
	answerFlag(f, &opts)
	ask.flags(f)
	timingsFlag(c, f)
	f.BoolVar(&opts.KeepDisk, "keep-disk", false, "keep the persistent disk as an orphaned one, see bootstrap disks")
	f.BoolVar(&opts.Fix, "fix", false, "delete a VM whose agent is silent or busy, without stopping its jobs")
	f.BoolVar(&opts.SkipIfMissing, "skip-if-missing", false, "succeed if there is no state file")
	return cmd
}
