package vm

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/deployer"
	"bootstrap/deployment"
)

func newStop(c *cli.Console) *cobra.Command {
	var ask cli.Asking
	hard := false
	cmd := lifecycle(c, &cobra.Command{
		Use:   "stop {MANIFEST | --state FILE}",
		Short: "Stop the jobs and leave the VM",
		Long: `Stop runs the pre-stop and drain scripts of the jobs, stops the jobs, and runs the
post-stop scripts. VM and disk stay as they are. The jobs stay stopped until bootstrap
start, even if you deploy in between. With several instances, it stops all, or those
of --instance: one group after another, the last one first.

With --hard it also deletes the VM, and keeps its disk and addresses: bootstrap start
creates a VM with them, as the manifest says then. Deploys create none before.`,
		Example: "  bootstrap stop manifest.yml\n  bootstrap stop manifest.yml --hard && bootstrap start manifest.yml",
	}, deployment.Stop, func(ctx context.Context, opts deployer.Options) error {
		if !hard {
			return deployer.Stop(ctx, opts)
		}
		if !opts.OfAll { // Of several instances, none is asked about.
			opts.Confirm = c.Confirm(ask)
		}
		return deployer.Detach(ctx, opts)
	}, func(f *pflag.FlagSet, opts *deployer.Options) {
		stopFlags(f, opts)
		cli.CPIFlags(f, opts)
		ask.Flags(f)
		f.BoolVar(&hard, "hard", false, "also delete the VM; keep its disk and addresses")
	})
	return cmd
}

func newStart(c *cli.Console) *cobra.Command {
	return lifecycle(c, &cobra.Command{
		Use:   "start {MANIFEST | --state FILE}",
		Short: "Start the jobs on the existing VM",
		Long: `Start runs the pre-start scripts, starts the jobs, waits until they are running, and
runs the post-start and post-deploy scripts. If the agent does not answer, it first
reboots the VM. With several instances, it starts all, or those of --instance: one
group after another. After stop --hard it deploys, which creates the VM: that needs
the flags of the deploy.`,
		Example: "  bootstrap start manifest.yml",
	}, deployment.Start, deployer.Start, func(f *pflag.FlagSet, opts *deployer.Options) {
		cli.CPIFlags(f, opts) // to reboot the VM, or to create it
		cli.DatabaseFlag(f, &opts.Database)
		cli.TimeVar(f, &opts.CreateTimeout, "create-timeout", 10*time.Minute, "how long a new VM's agent may take, after stop --hard")
		cli.TimeVar(f, &opts.AgentTimeout, "agent-timeout", 2*time.Minute, "how long a rebooted VM's agent may take")
	})
}

func newRestart(c *cli.Console) *cobra.Command {
	return lifecycle(c, &cobra.Command{
		Use:   "restart {MANIFEST | --state FILE}",
		Short: "Stop the jobs and start them again",
		Long: `Restart stops the jobs and starts them again, as stop and start do. Several instances
restart one after another, by the update rules of the last deploy.`,
		Example: "  bootstrap restart manifest.yml",
	}, deployment.Restart, deployer.Restart, func(f *pflag.FlagSet, opts *deployer.Options) {
		stopFlags(f, opts)
		cli.WidthFlags(f, opts)
	})
}

// stopFlags adds the flags of commands that stop jobs and do not call the CPI.
func stopFlags(f *pflag.FlagSet, opts *deployer.Options) {
	cli.SkipDrainFlag(f, opts)
	cli.AnswerFlag(f, opts)
}

// lifecycle completes a command that works on an existing VM.
func lifecycle(c *cli.Console, cmd *cobra.Command, does deployment.Lifecycle, run func(context.Context, deployer.Options) error, flags func(*pflag.FlagSet, *deployer.Options)) *cobra.Command {
	var opts deployer.Options
	cmd.Args = cli.ManifestOrState
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Start()
		opts.Manifest = cli.Manifest(args)
		opts.Inputs.Lenient = true
		several, err := instances.Select(cmd.Context(), c, &opts)
		switch {
		case err != nil:
			return err
		case several != nil:
			return several.Lifecycle(c, cmd, opts, does, run)
		}
		return c.Deployment(cmd.Context(), opts, instances.SendingNames(c, cmd, run))
	}
	f := cmd.Flags()
	c.InputFlags(f, &opts.Inputs)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.LockFlag(f, &opts.LockWait)
	cli.AgentFlags(f, &opts)
	flags(f, &opts)
	c.TimingsFlag(f)
	return cmd
}
