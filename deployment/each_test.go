package deployment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
