package observe

import (
	"path/filepath"
	"slices"

	"bootstrap/deployer/kept"
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

// Jobs returns the names of the jobs that the last deploy from this machine has
// applied. home is ~/.bosh.
func Jobs(home string, st state.State) []string {
	applied, _ := kept.At(filepath.Join(home, st.InstallationID)).Applied(kept.Current)
	var list []string
	for _, job := range applied.Spec.Job.Templates {
		list = append(list, job.Name)
	}
	return list
}
