package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ChildFlags returns the flags of the command line, and the bootstrap.yml that it uses,
// for another command of this program, which does a part of the work in a process of its
// own. Flags that the command does not have and those about the output are left out.
func (c *Console) ChildFlags(cmd, other *cobra.Command) []string {
	own := []string{"json", "events", "plain", "color", "tty", "timings", "out", "html", "format", "plan", "yes", "non-interactive", "instance", "record", "state", "bootstrap-yml", "only", "skip-unreachable", "version", "previous"}
	list, args := []string{"--bootstrap-yml="}, c.line.full.Args
	if file := c.line.full.File; file != nil {
		list, args = []string{"--bootstrap-yml=" + file.Path}, c.Args // Only a file can have variables that are not text.
	}
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			break
		}
		name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := cmd.Flags().Lookup(name)
		if !strings.HasPrefix(word, "--") {
			if !strings.HasPrefix(word, "-") || word == "-" {
				continue
			}
			flag, given = cmd.Flags().ShorthandLookup(word[1:2]), len(word) > 2
		}
		if flag == nil {
			continue
		}
		words := []string{word}
		if !given && flag.NoOptDefVal == "" && i+1 < len(args) {
			i++
			words = append(words, args[i])
		}
		if other.Flags().Lookup(flag.Name) != nil && !slices.Contains(own, flag.Name) {
			list = append(list, words...)
		}
	}
	return list
}
