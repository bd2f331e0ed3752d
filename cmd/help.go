package cmd

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"bootstrap/cmd/usage"
)

// newHelp returns the help command, which reports a mistyped name.
func newHelp(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command, or about exit-codes",
		Long:  "Help prints the help of a command, like COMMAND --help, or of the topic exit-codes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			for _, name := range args {
				next := child(about, name)
				if next == nil {
					return usage.NoSuchCommand(about, name)
				}
				about = next
			}
			c.started, c.quiet = true, true
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			other := func(name string) bool { return !strings.HasPrefix(name, begin) }
			return slices.DeleteFunc(usage.Subcommands(about), other), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// showHelp returns a function that prints the help of a command. Templates of cobra are
// not used, for the reason of the page of a fleet report: see markup there.
func showHelp(c *console) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) { cmd.Print(helpOf(c, cmd)) }
}

// helpOf returns the help of a command, for the width of a terminal if it goes to one.
func helpOf(c *console, cmd *cobra.Command) string {
	var text strings.Builder
	if about := strings.TrimRightFunc(cmp.Or(cmd.Long, cmd.Short), unicode.IsSpace); about != "" {
		text.WriteString(about + "\n\n")
	}
	if cmd.Runnable() || cmd.HasSubCommands() {
		text.WriteString(cmd.UsageString())
	}
	if cmd.Runnable() {
		text.WriteString("\nExit codes: bootstrap help exit-codes\n")
	}
	help := text.String()
	if f := c.terminalOf(c.stdout); f != nil && !c.json && !c.plainLines {
		return usage.Fit(help, widthOf(f)())
	}
	return help
}

// child returns the subcommand with that name or alias, nil if there is none.
func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// group adds commands to the root under a heading of its help.
func group(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}
