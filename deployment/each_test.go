package deployment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
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
