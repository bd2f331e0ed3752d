package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/usage"
	"bootstrap/deployer"
)

func newStop(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:   "stop {MANIFEST | --state FILE}",
		Short: "Stop the jobs and leave the VM",
		Long: `Stop runs the pre-stop and drain scripts of the jobs, stops the jobs, and runs the
post-stop scripts. VM and disk stay as they are. The jobs stay stopped until
bootstrap start, even if you deploy in between.`,
		Example: "  bootstrap stop manifest.yml",
	}, deployer.Stop, c.stopFlags)
}

func newStart(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:   "start {MANIFEST | --state FILE}",
		Short: "Start the jobs on the existing VM",
		Long: `Start runs the pre-start scripts, starts the jobs, waits until they are running, and
runs the post-start and post-deploy scripts. If the agent does not answer, it first
reboots the VM.`,
		Example: "  bootstrap start manifest.yml",
	}, deployer.Start, func(f *pflag.FlagSet, opts *deployer.Options) {
		cpiFlags(f, opts) // to reboot the VM
		timeVar(f, &opts.AgentTimeout, "agent-timeout", 2*time.Minute, "how long a rebooted VM's agent may take")
	})
}

func newRestart(c *console) *cobra.Command {
	return c.lifecycle(&cobra.Command{
		Use:     "restart {MANIFEST | --state FILE}",
		Short:   "Stop the jobs and start them again",
		Long:    "Restart stops the jobs and starts them again, as stop and start do.",
		Example: "  bootstrap restart manifest.yml",
	}, deployer.Restart, c.stopFlags)
}

// stopFlags adds the flags of commands that stop jobs and do not call the CPI.
func (c *console) stopFlags(f *pflag.FlagSet, opts *deployer.Options) {
	skipDrainFlag(f, opts)
	answerFlag(f, opts)
}

// lifecycle completes a command that works on an existing VM.
func (c *console) lifecycle(cmd *cobra.Command, run func(context.Context, deployer.Options) error, flags func(*pflag.FlagSet, *deployer.Options)) *cobra.Command {
	var opts deployer.Options
	cmd.Args = usage.ManifestOrState
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.started = true
		opts.Manifest = first(args)
		opts.Inputs.Lenient = true
		return c.deployment(cmd.Context(), opts, run)
	}
	f := cmd.Flags()
	c.inputFlags(f, &opts.Inputs)
	stateFlag(f, &opts.StateFile)
	lockFlag(f, &opts.LockWait)
	agentFlags(f, &opts)
	flags(f, &opts)
	timingsFlag(c, f)
	return cmd
}

// first returns the manifest, or an empty text if none is named.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// newRecreate returns the command recreate, which is deploy --recreate.
func newRecreate(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	cmd := &cobra.Command{
		Use:     "recreate MANIFEST",
		Short:   "Replace the VM: deploy --recreate",
		Long:    "Recreate does the same as deploy --recreate: it replaces the VM even if nothing\nchanged. The new VM gets the persistent disk.",
		Example: "  bootstrap recreate manifest.yml",
		Args:    usage.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest, opts.Recreate, opts.Existing = args[0], true, true
			opts.Confirm = c.confirm(ask)
			return c.deployment(cmd.Context(), opts, deployer.Deploy)
		},
	}
	c.deployFlags(cmd.Flags(), &opts)
	planFlags(cmd.Flags(), &opts)
	createdFlag(cmd.Flags(), &opts)
	timingsFlag(c, cmd.Flags())
	ask.flags(cmd.Flags())
	return cmd
}
