package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/plan"
)

// FuzzPlan reads plans that plan --out has not written.
func FuzzPlan(f *testing.F) {
	good, err := json.Marshal(deployer.PlanFile{Format: 2, Deployment: "web", Salt: "s", Inputs: "i", Plan: plan.Of(plan.Decision{Changes: []plan.Change{{What: plan.VM, Action: plan.Create, Why: []plan.Reason{{Cause: plan.NoVM}}}}})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, s := range []string{"", "null", "{}", "[]", `{"format": "1"}`, `{"format": 1, "plan": {"changes": [null, {}]}}`, `{"format": 2, "plan": {"changes": [null, {}], "steps": [{}, null]}}`, "{\"format\": 1}\n{}", "name: web\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		plan, err := readPlan(path)
		if err != nil {
			if plan != nil || !strings.Contains(err.Error(), path) {
				t.Fatalf("%v and %q", plan, err)
			}
			return
		}
		if plan.Format == 0 {
			t.Fatalf("accepted: %+v", plan)
		}
		plan.Plan.Nothing()
		if err := writePlan(path, *plan); err != nil {
			t.Fatal(err)
		}
		if _, err := readPlan(path); err != nil {
			t.Fatalf("%q was read once, but not twice: %v", data, err)
		}
	})
}
