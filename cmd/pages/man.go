package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeMan writes the man pages of a command and its subcommands. cobra/doc would leave
// out the values of flags (--state FILE), and join the rows of a table.
func writeMan(dir string, c *cobra.Command, date time.Time) error {
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue
		}
		if err := writeMan(dir, sub, date); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(manPage(c, date)), 0o644)
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the page of a command, as man(7) describes.
func manPage(c *cobra.Command, date time.Time) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q \"bootstrap\" \"bootstrap\"\n", strings.ToUpper(pageName(c)), date.Format(time.DateOnly))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	if c.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(cmp.Or(c.Long, c.Short)))
	if c.HasExample() {
		b.WriteString(".SH EXAMPLES\n" + paragraphs(c.Example))
	}
	var commands strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			fmt.Fprintf(&commands, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	section(&b, "COMMANDS", commands.String())
	section(&b, "OPTIONS", options(c.NonInheritedFlags()))
	section(&b, "OPTIONS OF EVERY COMMAND", options(c.InheritedFlags()))
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1),\n.BR bootstrap-exit-codes (1)\n", roff(pageName(c.Parent())))
	}
	return b.String()
}

func section(b *strings.Builder, title, text string) {
	if text != "" {
		b.WriteString(".SH " + title + "\n" + text)
	}
}

// options lists flags with their values and defaults, as --help does.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		takes, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if takes != "" {
			takes = " \\fI" + roff(takes) + "\\fR"
		}
		switch f.DefValue {
		case "", "false", "0", "[]", "0s":
		default:
			about += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR%s\n%s\n", roff(name), takes, roff(about))
	})
	return b.String()
}

// paragraphs returns a text with its paragraphs filled. Indented lines, which help texts
// use for tables and commands, are kept.
func paragraphs(text string) string {
	var b strings.Builder
	asIs := false
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		line = strings.TrimRight(line, " \n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case line == "" && !asIs:
			b.WriteString(".PP\n")
			continue
		case indented && !asIs:
			b.WriteString(".nf\n")
		case !indented && asIs && line != "":
			b.WriteString(".fi\n")
		}
		asIs = indented || line == "" && asIs
		b.WriteString(roff(line) + "\n")
	}
	if asIs {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// roff escapes a line of text: a hyphen would become a dash, which cannot be copied, and
// a dot or an apostrophe at the beginning would make it a request.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`).Replace(line)
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}
