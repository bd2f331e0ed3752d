package deploy

import (
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/plan"
)

// A plan of the previous format has stopping and starting jobs as one step each. It
// equals a new plan in which these steps are folded.
func TestPlanOfOldFormat(t *testing.T) {
	t.Parallel()
	saved, err := readPlan("../../testdata/plans/format-2.json")
	if err != nil {
		t.Fatal(err)
	}
	if saved.Format != deployer.OldPlanFormat || len(saved.Plan.Steps) != 8 {
		t.Errorf("format %d, steps %v", saved.Format, saved.Plan.Steps)
	}
	made := plan.Of(saved.Plan.Decision)
	if what := plan.Differs(saved.Plan, made.Folded()); what != "" {
		t.Error(what)
	}
}
