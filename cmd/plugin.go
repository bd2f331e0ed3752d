package cmd

import (
	"context"
	"log"
	"os"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	localagent "bootstrap/local/agent"
	"bootstrap/local/bpm"
	localcpi "bootstrap/local/cpi"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
	"bootstrap/templates"
)

// newPlugin returns the commands that this program runs as its own child processes: the
// embedded CPI, agent and Ruby, and the parts of a VM.
func newPlugin(c *cli.Console) *cobra.Command {
	plugin := &cobra.Command{Use: "plugin", Short: "The embedded CPI, agent and Ruby", Hidden: true, Args: cli.NoArgs}
	part := func(use, short string, takes cobra.PositionalArgs, run func(ctx context.Context, args []string) (status int, err error)) *cobra.Command {
		added := &cobra.Command{Use: use, Short: short, Args: takes, RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			c.Silent()
			status, err := run(cmd.Context(), args)
			if status != 0 {
				return exit.Code(status)
			}
			return err
		}}
		plugin.AddCommand(added)
		return added
	}
	var config string
	cpi := part("cpi --config FILE", "One call of the embedded CPI: a request on stdin, a response on stdout", cli.NoArgs, func(ctx context.Context, _ []string) (int, error) {
		self, err := os.Executable()
		if err != nil {
			return 0, err
		}
		return localcpi.Run(ctx, config, self, c.Stdin, c.Stdout, c.Stderr), nil
	})
	cpi.Flags().StringVar(&config, "config", "", "the `FILE` of the CPI's configuration")
	agent := func(ctx context.Context, folder string) (int, error) {
		log.SetOutput(c.Redactor.Writer(c.Stderr)) // log messages of net/http go to the agent's log
		return 0, localagent.Run(ctx, folder, c.Stderr)
	}
	part("agent FOLDER", "The agent of the embedded VM in that folder", cobra.ExactArgs(1), func(ctx context.Context, args []string) (int, error) {
		return agent(ctx, args[0])
	})
	part("agent-inside FOLDER", "The same inside of the VM's namespaces, where the folder has another path", cobra.ExactArgs(1), func(ctx context.Context, _ []string) (int, error) {
		if status, err := agent(ctx, namespace.Guest); err != nil || ctx.Err() == nil {
			return status, err
		}
		return namespace.Interrupted, nil
	})
	part("login-inside", "The SSH connection on stdin, inside of the namespaces of a VM", cli.NoArgs, func(ctx context.Context, _ []string) (int, error) {
		return 0, localagent.ServeLogin(ctx, namespace.Guest, c.Stderr)
	})
	part("machine PART [VM]", "A part of the namespaces of an embedded VM", cobra.MinimumNArgs(1), func(ctx context.Context, args []string) (int, error) {
		return 0, namespace.Main(ctx, args)
	})
	part("network CABLE", "The process that connects an embedded VM to its network", cobra.ExactArgs(1), func(ctx context.Context, args []string) (int, error) {
		return 0, network.Main(ctx, args[0])
	})
	wrapper := part("bpm COMMAND [JOB]", "The program bpm in an embedded VM: processes of config/bpm.yml", cobra.ArbitraryArgs, func(ctx context.Context, args []string) (int, error) {
		return bpm.Run(ctx, bpm.Call{Args: args, Root: c.Getenv("VCAP_ROOT"), Version: cli.Version(), Stdout: c.Stdout, Stderr: c.Stderr}), nil
	})
	wrapper.DisableFlagParsing = true
	control := part("monit COMMAND [NAME]", "The program monit in an embedded VM", cobra.ArbitraryArgs, func(ctx context.Context, args []string) (int, error) {
		return localagent.Monit(ctx, localagent.MonitCall{Args: args, Root: c.Getenv("VCAP_ROOT"), Stdout: c.Stdout, Stderr: c.Stderr}), nil
	})
	control.DisableFlagParsing = true
	var cache, socket string
	ruby := part("templates --cache FOLDER", "The embedded Ruby: requests on stdin or a socket, and answers", cli.NoArgs, func(ctx context.Context, _ []string) (int, error) {
		if socket != "" {
			return 0, templates.Listen(ctx, c.Stdin, c.Stdout, cache, socket)
		}
		return templates.Serve(ctx, c.Stdin, c.Stdout, c.Stderr, cache)
	})
	ruby.Flags().StringVar(&cache, "cache", "", "the `FOLDER` where machine code is kept")
	ruby.Flags().StringVar(&socket, "listen", "", "the `SOCKET` for requests of several processes; empty: stdin and stdout")
	return plugin
}
