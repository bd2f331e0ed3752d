package environment

import (
	"strings"

	"github.com/spf13/cobra"
)

// WithoutValue is the annotation of a flag with an optional value: it has the default
// value.
const WithoutValue = "without-value"

// FillIn inserts the default value after each flag with an optional value that has none:
// at the end, or before another flag.
func FillIn(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	var filled []string
	for i, arg := range args {
		if arg == "--" {
			return append(filled, args[i:]...)
		}
		filled = append(filled, arg)
		name, long := strings.CutPrefix(arg, "--")
		f := cmd.Flags().Lookup(name)
		if !long || f == nil || len(f.Annotations[WithoutValue]) == 0 {
			continue
		}
		if i == len(args)-1 || isFlag(args[i+1]) {
			filled = append(filled, f.Annotations[WithoutValue][0])
		}
	}
	return filled
}

// isFlag reports whether an argument is a flag and not a value; a negative
// number is a value.
func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && (arg[1] < '0' || arg[1] > '9')
}
