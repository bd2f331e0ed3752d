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
)

// docs/reference.md is generated from the help of the commands; `go test ./cmd -update`
// writes it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Reference of commands

Made from the help of the program: ` + "`bootstrap COMMAND --help`" + ` prints the same. MANIFEST is the file to deploy, or the folder of a
[bootstrap.yml](environment.md).

`)
	root := Commands()
	all := documented(root)
	for i, c := range all {
		name, anchor := c.Name(), strings.ReplaceAll(c.CommandPath(), " ", "-")
		if c.Parent() == root {
			fmt.Fprintf(&b, "- [`%s`](#%s)", name, anchor)
		} else {
			fmt.Fprintf(&b, ", [`%s`](#%s)", name, anchor)
		}
		if i+1 == len(all) || all[i+1].Parent() == root { // the last one of its row
			for c.Parent() != root {
				c = c.Parent()
			}
			fmt.Fprintf(&b, ": %s\n", marked(c.Short))
		}
	}
	common := commonFlags(all)
	b.WriteString("\n## Flags of every command\n\n" + flagList(flagRows(root.PersistentFlags())))
	b.WriteString("\n## Common flags\n\nEach command names those that it has; a group stands for all of its flags. If the command lists the flag itself, that text counts.\n")
	groups := groupsOf(t, common)
	for _, g := range groups {
		b.WriteString("\n### " + g.title + "\n\n" + flagList(g.rows))
	}
	b.WriteString("\n## Exit codes\n\n`bootstrap help exit-codes` lists them; [troubleshooting](troubleshooting.md#exit-codes) says what to do after each.\n")
	for _, c := range all {
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		if usage := strings.TrimSuffix(c.UseLine(), " [flags]"); usage != c.CommandPath() {
			fmt.Fprintf(&b, "`%s`\n\n", usage)
		}
		b.WriteString(prose(cmp.Or(c.Long, c.Short)))
		if examples := telling(c); examples != "" {
			b.WriteString("\n```\n" + examples + "```\n")
		}
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
		}
		rows := flagRows(c.NonInheritedFlags())
		own := slices.DeleteFunc(slices.Clone(rows), func(r flagRow) bool { return slices.Contains(common, r) })
		if len(own) > 0 {
			b.WriteString("\n" + flagList(own))
		}
		if names := commonNames(rows, common, groups); len(names) > 0 {
			fmt.Fprintf(&b, "\n[Common flags](#common-flags): %s.\n", strings.Join(names, ", "))
		}
	}
	golden.Assert(t, b.String(), "../../docs/reference.md")
}

// documented returns the commands of the page, each before its subcommands. Topics of
// help are not among them, and the help of completion names the commands for shells.
func documented(of *cobra.Command) (list []*cobra.Command) {
	for _, c := range of.Commands() {
		switch {
		case c.Hidden:
		case c.Name() == "completion":
			list = append(list, c)
		case c.Runnable():
			list = append(append(list, c), documented(c)...)
		}
	}
	return list
}

// telling returns the examples of a command, except those that only repeat its usage.
func telling(c *cobra.Command) string {
	var b strings.Builder
	for _, line := range strings.Split(unindented(c.Example), "\n") {
		usage, rest := c.CommandPath(), strings.Fields(line)
		if strings.HasPrefix(line, usage) {
			rest = rest[len(strings.Fields(usage)):]
		}
		if len(rest) > 1 {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// flagRow is a flag in a list: its names with its value, and its meaning.
type flagRow struct{ name, text, about string }

// flagGroup is a heading for common flags. A command with all flags of a group, except
// the last one, names the group.
type flagGroup struct {
	title string
	rows  []flagRow
}

// groupsOf sorts the common flags into groups; the last group has all other flags.
func groupsOf(t *testing.T, common []flagRow) []flagGroup {
	t.Helper()
	var groups []flagGroup
	rest := slices.Clone(common)
	for _, g := range []struct{ title, names string }{
		{"Values", "--var --var-file --var-source --vars-env --vars-file --pass-env"},
		{"Manifest", "--bootstrap-yml --cloud-config --cloud-provider --identity --links-from --lock-file --ops-file --release --runtime-config --stemcell --vars-store"},
		{"State", "--state --state-key"},
		{"Agent", "--old-ca --old-mbus --task-timeout --via"},
		{"CPI", "--cpi-timeout --package-dir --ruby"},
		{"Questions", "--non-interactive --yes"},
		{"Changes", "--allow-shrink --fix --keep-old-disk --on-failure"},
		{"New VMs", "--agent-timeout --compile --database --packages-group --recipient --skip-drain --update-watch-time"},
		{"Members", "--created-before --include-blocked --only"},
	} {
		group := flagGroup{title: g.title}
		for _, name := range strings.Fields(g.names) {
			at := slices.IndexFunc(rest, func(r flagRow) bool { return r.name == name })
			if at < 0 {
				t.Fatalf("no common flag %s is left for the group %q", name, g.title)
			}
			group.rows = append(group.rows, rest[at])
			rest = slices.Delete(rest, at, at+1)
		}
		groups = append(groups, group)
	}
	return append(groups, flagGroup{"Others", rest})
}

// commonNames returns links to the groups of which a command has all flags, and the names
// of its other common flags.
func commonNames(rows, common []flagRow, groups []flagGroup) []string {
	var names []string
	rows = slices.DeleteFunc(slices.Clone(rows), func(r flagRow) bool { return !slices.Contains(common, r) })
	for _, g := range groups[:len(groups)-1] {
		if slices.ContainsFunc(g.rows, func(r flagRow) bool { return !slices.Contains(rows, r) }) {
			continue
		}
		rows = slices.DeleteFunc(rows, func(r flagRow) bool { return slices.Contains(g.rows, r) })
		names = append(names, fmt.Sprintf("[%s](#%s)", g.title, strings.ReplaceAll(strings.ToLower(g.title), " ", "-")))
	}
	for _, r := range rows {
		name := "`" + r.name + "`"
		if slices.ContainsFunc(common, func(o flagRow) bool { return o.name == r.name && o != r }) { // name which one
			name = "`" + r.text + "`"
			if _, initial, ok := strings.Cut(r.about, " (default "); ok {
				name += " (" + initial
			}
		}
		names = append(names, name)
	}
	return names
}

// commonFlags returns the flags that at least 3 commands have with the same text. If a
// flag has several texts, the most frequent one counts, and others with another value or
// default, which commonNames prints.
func commonFlags(commands []*cobra.Command) []flagRow {
	count := map[flagRow]int{}
	for _, c := range commands {
		for _, r := range flagRows(c.NonInheritedFlags()) {
			count[r]++
		}
	}
	most := map[string]flagRow{}
	for _, r := range slices.SortedFunc(maps.Keys(count), func(a, b flagRow) int { return cmp.Compare(a.text+a.about, b.text+b.about) }) {
		if label := r.label(); count[r] >= 3 && count[r] > count[most[label]] {
			most[label] = r
		}
	}
	return slices.SortedFunc(maps.Values(most), func(a, b flagRow) int { return cmp.Compare(a.label(), b.label()) })
}

// label returns the name of a flag with its value and default.
func (r flagRow) label() string {
	_, initial, _ := strings.Cut(r.about, " (default ")
	return r.text + " " + strings.TrimSuffix(initial, ")")
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

// flagList returns a list of flags with their values and defaults.
func flagList(rows []flagRow) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "- `%s`: %s\n", r.text, r.about)
	}
	return b.String()
}

// prose returns a help text as Markdown: indented lines become a block.
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

// marked escapes characters with a meaning in Markdown.
func marked(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`).Replace(text)
}
