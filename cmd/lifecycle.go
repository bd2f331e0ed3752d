package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"bootstrap/deployer"
)

func newStop(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:   "stop MANIFEST",
		Short: "Stop the jobs and leave the VM",
		Long: `Stop runs the jobs' pre-stop and drain scripts, stops them, and runs post-stop.
VM and disk stay as they are. The jobs stay stopped, also through a deploy, until
bootstrap start.`,
		Example: "  bootstrap stop manifest.yml",
	}, deployer.Stop)
}

func newStart(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:   "start MANIFEST",
		Short: "Start the jobs on the VM that is there",
		Long: `Start runs pre-start, starts the jobs, waits until they run, and runs post-start
and post-deploy. A VM whose agent does not answer is rebooted first.`,
		Example: "  bootstrap start manifest.yml",
	}, deployer.Start)
}

func newRestart(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:     "restart MANIFEST",
		Short:   "Stop the jobs and start them again",
		Long:    "Restart does what stop and start do, one after the other.",
		Example: "  bootstrap restart manifest.yml",
	}, deployer.Restart)
}

// lifecycle completes a command that works on the VM that is there.
func (c *console) lifecycle(cmd *cobra.Command, run func(context.Context, deployer.Options) error) *cobra.Command {
	var opts deployer.Options
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.started = true
		opts.Manifest = args[0]
		opts.Inputs.Lenient = true
		return c.deployment(cmd.Context(), opts, run)
	}
	c.commonFlags(cmd.Flags(), &opts)
	return cmd
}

// newRecreate is deploy --recreate by its own name.
func newRecreate(c *console) *cobra.Command {
	cmd := newDeploy(c)
	cmd.Use = "recreate MANIFEST"
	cmd.Short = "Replace the VM: deploy --recreate"
	cmd.Long = "Recreate does what deploy --recreate does: it makes a new VM though nothing\nchanged. The persistent disk goes over to it."
	cmd.Example = "  bootstrap recreate manifest.yml"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmd.Flags().Set("recreate", "true"); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
