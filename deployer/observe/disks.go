package observe

import (
	"slices"

	"bootstrap/state"
)

// Disks lists the persistent disks that a state records, the current one
// first, then the unused ones.
func Disks(st state.State) []SeenDisk {
	c := &Condition{}
	c.addRecords(st)
	slices.SortStableFunc(c.Disks, func(a, b SeenDisk) int { return rank(a.Use) - rank(b.Use) })
	return c.Disks
}

func rank(u DiskUse) int { return slices.Index([]DiskUse{DiskCurrent, DiskUnused, DiskOrphan}, u) }
