package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/observe"
)

// Check prints one finding of the doctor, for people.
func Check(out *Writer, c observe.Check) {
	const indent = "\n                        "
	fmt.Fprintf(out, "%-7s  %-13s  %s\n", c.Result, c.Name, strings.ReplaceAll(out.clean(c.Detail, maxMessage), "\n", indent))
	if c.Remedy != "" {
		fmt.Fprintf(out, "%s%s\n", indent[1:], "Remedy: "+strings.ReplaceAll(out.clean(c.Remedy, maxMessage), "\n", indent))
	}
	_ = out.Flush() // the writer keeps the error
}

// Checked prints the result of all checks.
func Checked(out *Writer, failed, warned int) {
	switch {
	case failed > 0:
		fmt.Fprintf(out, "\nFailed: %d, warnings: %d\n", failed, warned)
	case warned > 0:
		fmt.Fprintf(out, "\nNothing failed, warnings: %d\n", warned)
	default:
		fmt.Fprint(out, "\nAll is well.\n")
	}
}
