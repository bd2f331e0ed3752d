package ui

import (
	"fmt"
	"slices"

	"bootstrap/deployer/observe"
)

// useOf returns the use of a disk for people.
func useOf(d observe.SeenDisk) string {
	if d.Use == observe.DiskCurrent && d.Name != "" {
		return "named " + d.Name
	}
	return string(d.Use)
}

// Disks prints a table of recorded disks.
func Disks(out *Writer, list []observe.SeenDisk) {
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no disks")
		return
	}
	several := slices.ContainsFunc(list, func(d observe.SeenDisk) bool { return d.Instance != "" })
	columns := []string{"DISK", "SIZE", "USE", "SINCE", "WHY"}
	if several {
		columns = slices.Insert(columns, 0, "INSTANCE", "AZ")
	}
	table := NewTable(out, columns...).
		Yield("WHY", 12).Yield("SINCE", 12).Yield("WHY", 0).Yield("SIZE", 0).Yield("SINCE", 0)
	for _, d := range list {
		since := "-"
		if d.Since != nil {
			since = Moment(*d.Since)
		}
		cells := []string{d.CID, mebibytes(d.Size), useOf(d), since, orDash(d.Why)}
		if several {
			cells = slices.Insert(cells, 0, d.Instance, dash(d.Zone))
		}
		table.Row(cells...)
	}
	table.Print()
}
