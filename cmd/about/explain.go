package about

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/explain"
	"bootstrap/cmd/ui"
	"bootstrap/internal/spelling"
)

// Explanation is a page for programs.
type Explanation struct {
	Name     string   `json:"name"` // name of an error, or an exit code
	Summary  string   `json:"summary"`
	Messages []string `json:"messages,omitempty"` // messages of the error, with … for variable parts
	Text     string   `json:"text,omitempty"`     // in Markdown; empty in the list of all
}

// newExplain returns the command explain.
func newExplain(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain an error or an exit code",
		Long: `Explain prints what an error means, what to do, and what is safe. NAME is the name
that the output of a failed command ends with, or an exit code. Without a name it
lists all. See docs/troubleshooting.md.`,
		Example: "  bootstrap explain agent-silent\n  bootstrap explain 69",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return fmt.Errorf("explain was given %d arguments, and explains one: bootstrap explain NAME", len(args))
			case len(args) == 1 && args[0] == "":
				return errors.New("no error was named (the argument is empty)")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begin string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, p := range explain.Pages() {
				if len(args) == 0 && strings.HasPrefix(p.Name, begin) {
					list = append(list, cobra.CompletionWithDesc(p.Name, p.Summary()))
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			pages := explain.Pages()
			if len(args) == 0 {
				c.Start()
				listPages(c, pages)
				return nil
			}
			page, found := explain.Find(pages, args[0])
			if !found {
				if _, err := strconv.Atoi(args[0]); err == nil {
					return fmt.Errorf("%s is not an exit code of bootstrap; with bootstrap ssh it is the exit code of the command on the VM", args[0])
				}
				return fmt.Errorf("there is no error with the name %q (\"bootstrap explain\" lists all)%s", args[0], spelling.Suggest(args[0], explain.Names(pages)))
			}
			c.Start()
			showPage(c, page)
			return nil
		},
	}
}

// listPages prints the names of all pages, each with its first sentence.
func listPages(c *cli.Console, pages []explain.Page) {
	list := make([]Explanation, len(pages))
	for i, p := range pages {
		list[i] = Explanation{Name: p.Name, Summary: p.Summary(), Messages: p.Messages}
	}
	if c.JSON() {
		ui.PrintAll(c.Lines(), "explanation", list)
		return
	}
	c.Print(func(out *ui.Writer) {
		table := ui.NewTable(out, "NAME", "MEANS").Yield("MEANS", 20)
		for _, p := range pages {
			table.Row(p.Name, p.Summary())
		}
		table.Print()
	})
}

// showPage prints a page with the width of the terminal, at most 100 columns; without a
// terminal, with 80.
func showPage(c *cli.Console, p explain.Page) {
	if c.JSON() {
		c.PrintObject("explanation", Explanation{Name: p.Name, Summary: p.Summary(), Messages: p.Messages, Text: p.Text})
		return
	}
	width := 80
	if of := c.Width(); of > 0 {
		width = min(of-1, 100)
	}
	c.Print(func(out *ui.Writer) { _, _ = io.WriteString(out, p.Plain(width)) })
}
