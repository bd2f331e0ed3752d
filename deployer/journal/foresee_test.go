//go:build unix

package journal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/state"
	"bootstrap/state/file"
)

// foresee settles the calls in memory, as a plan does, and checks that nothing else
// changes.
func (d *deployment) foresee(t *testing.T) state.State {
	t.Helper()
	path := filepath.Join(d.dir, "state.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replies := d.replies(t)
	only, err := file.OpenReadOnly(path, file.Options{Home: filepath.Join(d.dir, "home")})
	if err != nil {
		t.Fatal(err)
	}
	j := *d.Journal
	j.State, j.Foresee, j.Report = only, true, report.New(func(report.Event) {})
	j.Adopted = func(context.Context, state.Intent, string) error { return nil }
	j.Gone = func() {}
	if err := j.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil || string(now) != string(text) || !slices.Equal(d.replies(t), replies) {
		t.Errorf("the state or the replies changed: %v", err)
	}
	return only.Get()
}

// A plan supposes the results that the next run records, for each method of state.Calls.
func TestForesees(t *testing.T) {
	t.Parallel()
	for _, row := range state.Calls() {
		t.Run(row.Method, func(t *testing.T) {
			t.Parallel()
			want := samples()[row.Method]
			d := deployed(t, map[string]string{row.Method: `echo '{"result":` + want.gets + `}'`})
			d.killedRun(t, row.Method, "after")
			d = opened(t, d.dir, cpi.Config{})
			defer d.State.Close()
			st := d.foresee(t)
			if want.made != "" && !recorded(st, want.made) || want.gone != "" && recorded(st, want.gone) || len(st.Own.Intents) > 0 {
				t.Errorf("recorded %q: %t, %q: %t; announced %v", want.made, recorded(st, want.made), want.gone, recorded(st, want.gone), st.Own.Intents)
			}
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if real := d.State.Get(); real.Own.Serial != st.Own.Serial || !slices.Equal(real.Resources(), st.Resources()) {
				t.Errorf("the plan supposes %v with serial %d, and the run has %v with serial %d", st.Resources(), st.Own.Serial, real.Resources(), real.Own.Serial)
			}
			d.finished(t)
		})
	}
}

// A plan does not wait for a CPI that is still running: what it deletes counts as deleted.
func TestForeseesRunningCPI(t *testing.T) {
	t.Parallel()
	for _, row := range state.Calls() {
		t.Run(row.Method, func(t *testing.T) {
			t.Parallel()
			want := samples()[row.Method]
			d := deployed(t, map[string]string{row.Method: "until [ -e go ]; do sleep 0.01; done; echo '{\"result\":" + want.gets + "}'"})
			d.killedRun(t, row.Method, "running")
			d = opened(t, d.dir, cpi.Config{})
			defer d.State.Close()
			st := d.foresee(t)
			if len(st.Own.Intents) != 1 || want.gone != "" && recorded(st, want.gone) != (row.Effect == state.Changes) {
				t.Errorf("announced %v; %q is recorded: %t", st.Own.Intents, want.gone, recorded(st, want.gone))
			}
			if err := os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.finished(t)
		})
	}
}
