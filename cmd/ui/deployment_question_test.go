package ui

import (
	"testing"

	"bootstrap/deployment"
)

func TestDeletedHow(t *testing.T) {
	t.Parallel()
	for want, disk := range map[string]deployment.Fate{
		"DELETED":                  "",
		"DELETED with their disks": deployment.DiskDeleted,
		"DELETED, and their disks become orphans": deployment.DiskOrphaned,
	} {
		p := &deployment.Plan{Deployment: "d", Rows: []deployment.Row{{Name: "web/0", Action: deployment.Delete, Disk: disk}}}
		if got := InstanceQuestion(p); len(got) == 0 || got[0] != "Of the instances of d, 1 will be "+want {
			t.Errorf("%q: %q", disk, got)
		}
	}
}
