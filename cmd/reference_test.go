package cmd

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gotest.tools/v3/golden"

	"bootstrap/cmd/explain"
)

// docs/reference.md is made from the help of the commands; `go test ./cmd -update`
// writes it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Reference of commands

Made from the help of the program: ` + "`bootstrap COMMAND --help`" + ` prints the same. MANIFEST is the file to deploy, or the folder of a
[bootstrap.yml](environment.md); the [README](../README.md#commands) says which command does what in a line each.

| command | |
|---|---|
`)
	root := Commands()
	var all []*cobra.Command
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		if c.Runnable() && c != root && len(strings.Fields(c.CommandPath())) <= 3 {
			all = append(all, c)
			path := strings.TrimPrefix(c.CommandPath(), "bootstrap ")
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(c.CommandPath(), " ", "-"), marked(c.Short))
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	b.WriteString("\n## Flags of every command\n\n" + flagTable(root.PersistentFlags()))
	b.WriteString("\n## Exit codes\n\nWhat to do after each of them: [troubleshooting](troubleshooting.md#exit-codes).\n\n```\n" + strings.TrimRight(explain.ExitCodes, "\n") + "\n```\n")
	for _, c := range all {
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n\n%s", c.CommandPath(), c.UseLine(), prose(cmp.Or(c.Long, c.Short)))
		if c.HasExample() {
			b.WriteString("\n```\n" + unindented(c.Example) + "\n```\n")
		}
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
		}
		if flags := flagTable(c.NonInheritedFlags()); flags != "" {
			b.WriteString("\n" + flags)
		}
	}
	golden.Assert(t, b.String(), "../../docs/reference.md")
}

// flagTable returns a table of flags with what they take and their defaults.
func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		takes, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch f.DefValue {
		case "", "false", "0", "[]", "0s":
		default:
			about += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace(name+" "+takes), marked(about))
	})
	if b.Len() == 0 {
		return ""
	}
	return "| flag | |\n|---|---|\n" + b.String()
}

// prose returns a help text as Markdown: what is indented there becomes a block.
func prose(text string) string {
	var b strings.Builder
	for _, part := range strings.Split(strings.TrimSpace("\n"+text), "\n\n") {
		if strings.HasPrefix(part, "  ") || strings.HasPrefix(part, "\t") {
			b.WriteString("```\n" + unindented(part) + "\n```\n\n")
			continue
		}
		b.WriteString(marked(part) + "\n\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func unindented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "  ")
	}
	return strings.Join(lines, "\n")
}

// marked escapes what Markdown would take for its own.
func marked(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`).Replace(text)
}
