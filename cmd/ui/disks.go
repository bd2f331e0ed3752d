package ui

import (
	"fmt"

	"bootstrap/deployer/observe"
)

// Disks prints a table of recorded disks.
func Disks(out *Writer, list []observe.SeenDisk) {
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no disks")
		return
	}
	table := NewTable(out, "DISK", "SIZE", "USE", "SINCE", "WHY").
		Yield("WHY", 12).Yield("SINCE", 12).Yield("WHY", 0).Yield("SIZE", 0).Yield("SINCE", 0)
	for _, d := range list {
		since := "-"
		if d.Since != nil {
			since = Moment(*d.Since)
		}
		table.Row(d.CID, Size(int64(d.Size)<<20), string(d.Use), since, orDash(d.Why))
	}
	table.Print()
}
