package about

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
)

// newHelp returns the help command, which reports a mistyped name.
func newHelp(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command, or about exit-codes",
		Long:  "Help prints the help of a command, like COMMAND --help, or of the topic exit-codes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for _, name := range args {
				next := child(about, name)
				if next == nil {
					return cli.NoSuchCommand(about, name)
				}
				about = next
			}
			c.Start()
			c.Quiet()
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			other := func(name string) bool { return !strings.HasPrefix(name, begin) }
			return slices.DeleteFunc(cli.Subcommands(about), other), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// aboutExitCodes ends the help of each command that can be run.
const aboutExitCodes = "{{if .Runnable}}\nExit codes: bootstrap help exit-codes\n{{end}}"

// AddHelp adds the command help, and makes all commands print cobra's help, broken to the
// width of the terminal.
func AddHelp(c *cli.Console, root *cobra.Command) {
	root.SetHelpCommand(newHelp(c))
	root.SetHelpTemplate(root.HelpTemplate() + aboutExitCodes)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		width, ok := c.HelpWidth()
		if !ok {
			help(cmd, args)
			return
		}
		var text strings.Builder
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		cmd.Print(fit(text.String(), width))
	})
}

// child returns the subcommand with that name or alias; nil: there is none.
func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}
