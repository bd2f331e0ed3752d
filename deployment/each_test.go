package deployment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
)

// After a failure, a run starts no other instance; a defect ends it and does not block it.
func TestEachEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func() error{
		"failure": func() error { return broken },
		"panic":   func() error { panic(broken) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := guard.Begin(t.Context())
				calls := 0
				err := (&runner{}).each(ctx, []string{"web/0", "web/1", "web/2"}, 1, func(context.Context, *Row) error {
					calls++
					return fail()
				})
				if err == nil || calls != 1 {
					t.Errorf("got %v after %d calls", err, calls)
				}
			})
		})
	}
}

// An instance whose VM cannot be created is reported as failed, and does not count among
// those that were not started.
func TestFailedCreateIsStarted(t *testing.T) {
	row := &Row{Name: "web/0", Action: Create, in: &record.Instance{ID: "0123456789", Group: "web"}}
	r := newRunner(Options{Report: func(Event) {}, Advice: func(error) string { return "" }}, &record.Record{}, &Plan{Rows: []Row{*row, {Name: "web/1", Action: Create, in: &record.Instance{ID: "1123456789", Group: "web"}}}}, t.TempDir())
	if err := r.ended(t.Context(), row, errors.New("no room"), Created); err == nil {
		t.Error("the failure is lost")
	}
	if r.left != 1 || len(r.failure) != 1 {
		t.Errorf("%d instances are left, and the failures are %q", r.left, r.failure)
	}
}

// A run continues after an instance has failed if update.on_failure says so, but not after a
// canary, nor after an instance that could not be deleted.
func TestContinueAfterFailure(t *testing.T) {
	for _, c := range []struct {
		about     string
		onFailure string
		canary    bool
		well      Status
		continues bool
	}{
		{"stop", "", false, Done, false},
		{"continue", manifest.ContinueAfterFailure, false, Done, true},
		{"continue after a VM that was not created", manifest.ContinueAfterFailure, false, Created, true},
		{"a canary", manifest.ContinueAfterFailure, true, Done, false},
		{"a delete", manifest.ContinueAfterFailure, false, Deleted, false},
	} {
		lot := order.Lot{Rest: []string{"web/0"}}
		if c.canary {
			lot = order.Lot{Canaries: []string{"web/0"}}
		}
		p := &Plan{
			Rows:   []Row{{Name: "web/0", Action: Change, in: &record.Instance{ID: "0123456789", Group: "web"}}},
			Stages: []order.Stage{{{Group: "web", Lots: []order.Lot{lot}}}},
			rules:  map[string]manifest.Rules{"web": {OnFailure: c.onFailure}},
		}
		r := newRunner(Options{Report: func(Event) {}, Advice: func(error) string { return "" }}, &record.Record{}, p, t.TempDir())
		err := r.ended(t.Context(), &p.Rows[0], errors.New("no room"), c.well)
		if errors.Is(err, errGivenUp) != c.continues || r.over == c.continues || r.hasFailed("web/0") != c.continues || len(r.failure) != 1 {
			t.Errorf("%s: %v, the run ends: %v, failures %q", c.about, err, r.over, r.failure)
		}
	}
}
