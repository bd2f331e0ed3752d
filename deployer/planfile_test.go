package deployer

import (
	"os"
	"path/filepath"
	"testing"
)

// A plan that was saved before there was a state belongs to one state file, whose folder
// may have moved. A plan of an earlier version does not name its state file.
func TestPlanOfAnotherDeployment(t *testing.T) {
	dir := t.TempDir()
	here, other := filepath.Join(dir, "here"), filepath.Join(dir, "other")
	for _, folder := range []string{here, other} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		madeFor string
		refused bool
	}{
		{"", false},
		{filepath.Join(here, "m-state.json"), false},
		{filepath.Join(dir, "moved", "m-state.json"), false},
		{filepath.Join(dir, "moved", "n-state.json"), true},
		{filepath.Join(here, "n-state.json"), true},
		{filepath.Join(other, "m-state.json"), true},
	} {
		of := newRun(Options{}).t
		of.StatePath = filepath.Join(here, "m-state.json")
		if err := (&PlanFile{StateFile: c.madeFor}).checkDeployment(of.Request); (err != nil) != c.refused {
			t.Errorf("made for %q: %v", c.madeFor, err)
		}
	}
}
