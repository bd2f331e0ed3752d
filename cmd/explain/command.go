package explain

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/internal/spelling"
)

// Console is what the command uses of the console.
type Console struct {
	Start   func()                     // says that the command line was understood
	Print   func(func(out *ui.Writer)) // prints a result for people
	Width   func() int                 // of the terminal; 0: there is none
	Objects func([]Explanation) bool   // prints results for programs, if these are who reads them
}

// Explanation is a page for programs.
type Explanation struct {
	Name     string   `json:"name"` // of an error, or an exit code
	Summary  string   `json:"summary"`
	Messages []string `json:"messages,omitempty"` // of the error, with … for what differs
	Text     string   `json:"text,omitempty"`     // in Markdown; empty in the list of all
}

// New returns the command explain.
func New(c Console) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain an error or an exit code",
		Long: `Explain prints what an error means, why it happens, what to do, and what is safe.
NAME is the name that the output of a failed command ends with, or an exit code.
Without a name it lists all. The same pages are in docs/troubleshooting.md.`,
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
			for _, p := range Pages() {
				if len(args) == 0 && strings.HasPrefix(p.Name, begin) {
					list = append(list, cobra.CompletionWithDesc(p.Name, p.Summary()))
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			pages := Pages()
			if len(args) == 0 {
				c.Start()
				c.list(pages)
				return nil
			}
			page, found := Find(pages, args[0])
			if !found {
				if _, err := strconv.Atoi(args[0]); err == nil {
					return fmt.Errorf("%s is not an exit code of bootstrap; of ssh it is that of the command on the VM", args[0])
				}
				return fmt.Errorf("there is no error with the name %q (\"bootstrap explain\" lists all)%s", args[0], spelling.Suggest(args[0], Names(pages)))
			}
			c.Start()
			c.show(page)
			return nil
		},
	}
}

// list prints the names of all pages, each with its first sentence.
func (c Console) list(pages []Page) {
	list := make([]Explanation, len(pages))
	for i, p := range pages {
		list[i] = Explanation{Name: p.Name, Summary: p.Summary(), Messages: p.Messages}
	}
	if c.Objects(list) {
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

// show prints a page as wide as the terminal, at most 100 columns, or 80.
func (c Console) show(p Page) {
	if c.Objects([]Explanation{{Name: p.Name, Summary: p.Summary(), Messages: p.Messages, Text: p.Text}}) {
		return
	}
	width := 80
	if of := c.Width(); of > 0 {
		width = min(of-1, 100)
	}
	c.Print(func(out *ui.Writer) { _, _ = io.WriteString(out, p.Plain(width)) })
}
