package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ChildFlags returns the flags of the command line and of bootstrap.yml that the command
// other also has. Processes that do a part of the work get them. Flags about the output
// are left out.
func (c *Console) ChildFlags(cmd, other *cobra.Command) []string {
	own := []string{"json", "events", "plain", "color", "timings", "out", "html", "format", "plan", "yes", "non-interactive", "instance", "record", "state"}
	list := []string{"--bootstrap-yml="} // The list has all flags already, so no bootstrap.yml is read.
	args := c.line.full.Args
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
