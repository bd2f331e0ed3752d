// Package cmd is the command line. Each heading of bootstrap help has a folder below it.
// Each command turns its flags into options and makes one call.
package cmd

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/about"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/complete"
	"bootstrap/cmd/deploy"
	"bootstrap/cmd/fleets"
	"bootstrap/cmd/manifests"
	"bootstrap/cmd/records"
	"bootstrap/cmd/vm"
)

// Main runs one command and returns its exit code. It collects the parameters of the
// process.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return Run(cli.Process{Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: env})
}

// Run runs the command of the arguments and returns its exit code.
func Run(p cli.Process) int {
	p.Env = withHome(p.Env, runtime.GOOS)
	restrictUmask()
	c := cli.New(p)
	return c.Execute(newRoot(c))
}

// Commands returns all commands with their flags and help texts, for generated pages.
// They cannot be run: they have no streams and no environment.
func Commands() *cobra.Command {
	root := newRoot(cli.New(cli.Process{Stdout: io.Discard, Stderr: io.Discard}))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func newRoot(c *cli.Console) *cobra.Command {
	root := &cobra.Command{
		Use:           "bootstrap",
		Short:         "Turn one BOSH manifest into one running VM",
		Long:          "Bootstrap turns one BOSH manifest into one running VM, and keeps it as the manifest\ndescribes.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.NoArgs,
	}
	version := root.Flags().BoolP("version", "v", false, "version for bootstrap")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "bootstrap %s\n", cli.Version())
			return err
		}
		return cmd.Help()
	}
	root.SetGlobalNormalizationFunc(normalFlag)
	c.Begin(root)
	if isPlugin(c.Args) {
		root.AddCommand(newPlugin(c))
		return root
	}
	group(root, "deploy", "Deploy:", deploy.Commands(c)...)
	group(root, "vm", "The VM and its jobs:", vm.Commands(c)...)
	group(root, "manifest", "The manifest:", manifests.Commands(c)...)
	group(root, "fleet", "Many deployments:", fleets.New(c))
	group(root, "kept", "What is recorded and kept:", records.Commands(c)...)
	root.AddCommand(append(about.Commands(c), newPlugin(c))...)
	root.SetFlagErrorFunc(cli.FlagError)
	about.AddHelp(c, root)
	c.Prepare(root)
	if len(c.Args) > 0 && strings.HasPrefix(c.Args[0], cobra.ShellCompRequestCmd) {
		complete.All(root, c.BoshHome)
	}
	return root
}

// isPlugin reports whether this process is one of the program's own children. Making all
// other commands takes as long as a call of the embedded CPI.
func isPlugin(args []string) bool { return len(args) > 1 && args[0] == "plugin" }

// normalFlag accepts another word order in flags, which other tools use.
func normalFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "wait-lock" {
		name = "lock-wait"
	}
	return pflag.NormalizedName(name)
}

// group adds commands to the root under a heading of its help.
func group(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}
