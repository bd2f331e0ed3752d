package ui

import (
	"fmt"
	"slices"
	"time"

	"bootstrap/state"
)

// Snapshot is a snapshot of a disk, as --json prints it.
type Snapshot struct {
	Instance   string    `json:"instance,omitempty"`    // GROUP/INDEX, in the snapshots of several
	InstanceID string    `json:"instance_id,omitempty"` // in the snapshots of several
	Zone       string    `json:"az,omitempty"`          // in the snapshots of several
	CID        string    `json:"cid"`
	Disk       string    `json:"disk"`               // CID
	Size       int       `json:"size_mib,omitempty"` // of the disk; absent: unknown
	Taken      time.Time `json:"taken"`
	// Current is true if the disk is in use.
	Current bool `json:"of_current_disk"`
}

// SnapshotsOf returns the snapshots of a state, the newest last.
func SnapshotsOf(st state.State) []Snapshot {
	list := []Snapshot{}
	for _, s := range st.Own.Snapshots {
		of := func(d state.Disk) bool { return d.CID == s.Disk }
		list = append(list, Snapshot{CID: s.CID, Disk: s.Disk, Size: s.Size, Taken: s.Taken.UTC(), Current: slices.ContainsFunc(st.UsedDisks(), of)})
	}
	return list
}

// Snapshots prints snapshots as a table.
func Snapshots(out *Writer, list []Snapshot) {
	if len(list) == 0 {
		fmt.Fprintln(out, "There are no snapshots")
		return
	}
	several := slices.ContainsFunc(list, func(s Snapshot) bool { return s.Instance != "" })
	columns := []string{"SNAPSHOT", "TAKEN", "DISK", "SIZE", "USE OF THE DISK"}
	if several {
		columns = slices.Insert(columns, 0, "INSTANCE", "AZ")
	}
	table := NewTable(out, columns...).Yield("SIZE", 0).Yield("USE OF THE DISK", 0).Yield("DISK", 12)
	for _, s := range list {
		size, use := "-", "-"
		if s.Size > 0 {
			size = mebibytes(s.Size)
		}
		if s.Current {
			use = "current"
		}
		cells := []string{s.CID, Moment(s.Taken), s.Disk, size, use}
		if several {
			cells = slices.Insert(cells, 0, s.Instance, dash(s.Zone))
		}
		table.Row(cells...)
	}
	table.Print()
}
