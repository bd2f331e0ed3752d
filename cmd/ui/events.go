package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/observe"
)

// Events prints a table of the commands that have changed a deployment.
func Events(out *Writer, list []observe.SeenEvent) {
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no events")
		return
	}
	several := slices.ContainsFunc(list, func(e observe.SeenEvent) bool { return e.Instance != "" })
	columns := []string{"TIME", "BY", "COMMAND", "ENDED", "CHANGES"}
	if several {
		columns = slices.Insert(columns, 1, "INSTANCE")
	}
	table := NewTable(out, columns...).
		Yield("CHANGES", 16).Yield("COMMAND", 12).Yield("BY", 0).Yield("COMMAND", 0).Yield("CHANGES", 0)
	for _, e := range list {
		ended := orDash(string(e.Status))
		if e.Error != "" {
			ended += ": " + out.clean(e.Error, maxMessage)
		}
		cells := []string{Moment(e.Time), cmp.Or(e.By, "-"), cmp.Or(e.Command, "-"), ended, orDash(strings.Join(e.Changes, ", "))}
		if several {
			cells = slices.Insert(cells, 1, cmp.Or(e.Instance, "-"))
		}
		table.Row(cells...)
	}
	table.Print()
}
