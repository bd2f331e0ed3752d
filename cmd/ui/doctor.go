package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/observe"
)

// Check prints one finding of the doctor, for people.
func Check(out *Writer, c observe.Check) {
	const column = 24
	indent := "\n" + strings.Repeat(" ", out.indent(column))
	out.paint(map[observe.CheckResult]style{observe.CheckOK: green, observe.CheckWarn: yellow, observe.CheckFail: alarm, observe.CheckSkipped: faint}[c.Result], fmt.Sprintf("%-7s", c.Result))
	if len(c.Instances) > 0 {
		c.Detail = strings.Join(c.Instances, ", ") + ": " + c.Detail
	}
	var lines []string
	for line := range strings.SplitSeq(out.clean(c.Detail, maxMessage), "\n") {
		lines = append(lines, out.broken(line, column))
	}
	fmt.Fprintf(out, "  %-13s  %s\n", c.Name, strings.Join(lines, indent))
	if c.Remedy != "" {
		fmt.Fprint(out, indent[1:])
		out.paint(cyan, "Remedy: ")
		fmt.Fprintf(out, "%s\n", strings.ReplaceAll(out.clean(c.Remedy, maxMessage), "\n", indent))
	}
	_ = out.Flush() // the writer keeps the error
}

// Checked prints the result of all checks.
func Checked(out *Writer, failed, warned int) {
	warnings := count(warned, "warning")
	switch {
	case failed > 0 && warned > 0:
		out.paint(alarm, fmt.Sprintf("\n%s failed, %s\n", count(failed, "check"), warnings))
	case failed > 0:
		out.paint(alarm, fmt.Sprintf("\n%s failed\n", count(failed, "check")))
	case warned > 0:
		out.paint(yellow, fmt.Sprintf("\n%s\n", warnings))
	default:
		out.paint(green, "\nAll is well.\n")
	}
}
