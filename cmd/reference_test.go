package cmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gotest.tools/v3/golden"

	"bootstrap/cmd/about"
)

// docs/reference.md is made from the help of the commands; `go test ./cmd -update`
// writes it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Reference of commands

Made from the help of the program: ` + "`bootstrap COMMAND --help`" + ` prints the same. MANIFEST is the file to deploy, or the folder of a
[bootstrap.yml](environment.md); the [README](../README.md#flags-that-many-commands-share) explains the flags that many commands share.

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
	common := commonFlags(all)
	b.WriteString("\n## Flags of every command\n\n" + flagTable(flagRows(root.PersistentFlags())))
	b.WriteString("\n## Common flags\n\nEach command says which of these it has. If its own table has the flag, that text counts.\n\n" + flagTable(common))
	b.WriteString("\n## Exit codes\n\nWhat to do after each of them: [troubleshooting](troubleshooting.md#exit-codes).\n\n```\n" + strings.TrimRight(about.ExitCodes, "\n") + "\n```\n")
	for _, c := range all {
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n\n", c.CommandPath(), c.UseLine())
		if c.Parent().Name() == "completion" { // cobra's text has a page for each shell
			fmt.Fprintf(&b, "%s; `%s --help` says how to load it.\n", c.Short, c.CommandPath())
			continue
		}
		b.WriteString(prose(cmp.Or(c.Long, c.Short)))
		if c.HasExample() {
			b.WriteString("\n```\n" + unindented(c.Example) + "\n```\n")
		}
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
		}
		rows := flagRows(c.NonInheritedFlags())
		own := slices.DeleteFunc(slices.Clone(rows), func(r flagRow) bool { return slices.Contains(common, r) })
		if len(own) > 0 {
			b.WriteString("\n" + flagTable(own))
		}
		var names []string
		for _, r := range rows {
			if slices.Contains(common, r) {
				names = append(names, "`"+r.name+"`")
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "\n[Common flags](#common-flags): %s.\n", strings.Join(names, ", "))
		}
	}
	golden.Assert(t, b.String(), "../../docs/reference.md")
}

// flagRow is a flag in a table: its names with what it takes, and what it does.
type flagRow struct{ name, text, about string }

// commonFlags returns the flags that at least 8 of the commands have in the same words.
// Of a flag with several texts it is the most frequent one.
func commonFlags(commands []*cobra.Command) []flagRow {
	count := map[flagRow]int{}
	for _, c := range commands {
		for _, r := range flagRows(c.NonInheritedFlags()) {
			count[r]++
		}
	}
	most := map[string]flagRow{}
	for _, r := range slices.SortedFunc(maps.Keys(count), func(a, b flagRow) int { return cmp.Compare(a.text+a.about, b.text+b.about) }) {
		if count[r] >= 8 && count[r] > count[most[r.name]] {
			most[r.name] = r
		}
	}
	return slices.SortedFunc(maps.Values(most), func(a, b flagRow) int { return cmp.Compare(a.name, b.name) })
}

// flagRows returns the flags that help shows.
func flagRows(flags *pflag.FlagSet) (rows []flagRow) {
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
		rows = append(rows, flagRow{"--" + f.Name, strings.TrimSpace(name + " " + takes), marked(about)})
	})
	return rows
}

// flagTable returns a table of flags with what they take and their defaults.
func flagTable(rows []flagRow) string {
	var b strings.Builder
	b.WriteString("| flag | |\n|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.text, r.about)
	}
	return b.String()
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
