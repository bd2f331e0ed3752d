package ui

import (
	"fmt"
	"io"
	"text/tabwriter"

	"bootstrap/deployer"
)

// Disks prints a table of recorded disks.
func Disks(out io.Writer, list []deployer.SeenDisk) {
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no disks")
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "DISK\tSIZE\tUSE\tSINCE\tWHY\n")
	for _, d := range list {
		since := "-"
		if d.Since != nil {
			since = moment(*d.Since)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.CID, Size(int64(d.Size)<<20), d.Use, since, orDash(d.Why))
	}
	_ = table.Flush()
}
