package deployer

import (
	"bootstrap/deployer/plan"
	"context"
	"testing"
)

// Each group of stages is printed once.
func TestGroupsOpenOnce(t *testing.T) {
	t.Parallel()
	r := newRun(Options{})
	nothing := func(context.Context) error { return nil }
	disk, snapshot := &diskRecord{run: r}, &snapshotRecord{run: r}
	for name, phases := range map[string][]phase{
		"deploy":                  r.deployPhases(),
		"compile":                 r.compilePhases(nothing),
		"plan":                    r.planPhases(nothing),
		"deploy --previous":       r.previousPhases(),
		"plan --previous":         r.planPreviousPhases(nothing),
		"stop":                    r.agentPhases("stopping", func(plan.Decision) []plan.Step { return nil }, nil),
		"delete":                  r.deletePhases(),
		"stop --hard":             r.detachPhases(),
		"cck":                     r.problemPhases(nothing),
		"run-errand":              r.errandPhases(nothing),
		"disks attach":            disk.attachPhases(),
		"disks delete":            disk.deletePhases(),
		"disks forget":            disk.forgetPhases(),
		"disks forget --force":    disk.forceForgetPhases(),
		"disks snapshots take":    snapshot.takePhases(),
		"disks snapshots delete":  snapshot.deletePhases(),
		"disks snapshots restore": snapshot.restorePhases(),
		"drop orphans":            r.dropPhases(),
		"render":                  r.renderPhases(RenderOptions{}),
		"share links":             r.sharePhases(),
		"links":                   r.linksPhases(nothing),
	} {
		opened, at := map[string]string{}, ""
		for _, p := range phases {
			if p.group != at && p.group != "" {
				if before := opened[p.group]; before != "" {
					t.Errorf("%s: %q opens the group %s again, which %q has opened", name, p.name, p.group, before)
				}
				opened[p.group] = p.name
			}
			at = p.group
		}
	}
}
