package cmd

import (
	"log"
	"os"

	"github.com/spf13/cobra"

	agentlocal "bootstrap/agent/local"
	cpilocal "bootstrap/cpi/local"
	"bootstrap/templates"
)

// newPlugin returns the commands that this program runs as its own child
// processes: the embedded CPI, the embedded agent and the embedded Ruby.
func newPlugin(c *console) *cobra.Command {
	plugin := &cobra.Command{Use: "plugin", Short: "The embedded CPI, agent and Ruby", Hidden: true, Args: noArgs}
	var config string
	cpi := &cobra.Command{
		Use:   "cpi --config FILE",
		Short: "One call of the embedded CPI: a request on stdin, a response on stdout",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.started, c.silent = true, true
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if code := cpilocal.Run(cmd.Context(), config, self, c.stdin, c.stdout, c.stderr); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
	cpi.Flags().StringVar(&config, "config", "", "the `FILE` of the CPI's configuration")
	agent := &cobra.Command{
		Use:   "agent FOLDER",
		Short: "The agent of the embedded VM in that folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started, c.silent = true, true
			log.SetOutput(c.redactor.Writer(c.stderr)) // log messages of net/http go to the agent's log
			return agentlocal.Run(cmd.Context(), args[0], c.stderr)
		},
	}
	var cache, socket string
	ruby := &cobra.Command{
		Use:   "templates --cache FOLDER",
		Short: "The embedded Ruby: requests on stdin or a socket, and answers",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.started, c.silent = true, true
			if socket != "" {
				return templates.Listen(cmd.Context(), c.stdin, c.stdout, cache, socket)
			}
			status, err := templates.Serve(cmd.Context(), c.stdin, c.stdout, c.stderr, cache)
			if status != 0 {
				return exitCode(status)
			}
			return err
		},
	}
	ruby.Flags().StringVar(&cache, "cache", "", "the `FOLDER` where machine code is kept")
	ruby.Flags().StringVar(&socket, "listen", "", "the `SOCKET` for requests of several processes; empty: stdin and stdout")
	plugin.AddCommand(cpi, agent, ruby)
	return plugin
}
