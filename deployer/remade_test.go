package deployer

import (
	"slices"
	"testing"

	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// A step in which the CPI may create the VM again needs the manifest, to apply the jobs
// again: runs that read no manifest have no such step.
func TestStepsWithoutManifestMayNotRemake(t *testing.T) {
	t.Parallel()
	st := state.State{CurrentVMCID: "vm-1", CurrentDiskID: "d", Disks: []state.Disk{{ID: "d", CID: "disk-1"}, {ID: "e", CID: "disk-2"}}}
	st.Own.Swap = &state.OldVM{CID: "vm-0"}
	for _, answers := range []bool{true, false} {
		d := plan.Seen(st, plan.Facts{HasVM: true, Answers: answers, OldAnswers: answers, Mounted: []string{"disk-1"}}, plan.Asked{})
		for name, steps := range map[string][]plan.Step{
			"stop": plan.StopSteps(d), "start": plan.StartSteps(d), "restart": plan.RestartSteps(d), "post-deploy": plan.PostDeploySteps(d),
			"delete": plan.DeleteSteps(d, false, true, true, nil), "delete --keep-disk": plan.DeleteSteps(d, true, true, false, nil),
			"disks delete": plan.DeleteDiskSteps([]string{"disk-2"}), "deploy --previous": plan.Previous(d, "web", false).Steps,
		} {
			if len(steps) == 0 || slices.ContainsFunc(steps, func(s plan.Step) bool { return mayRemake(s.Kind) }) {
				t.Errorf("%s has the steps %v", name, steps)
			}
		}
	}
}
