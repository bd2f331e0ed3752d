package guard_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bootstrap/internal/guard"
)

// Every number gets its call, and no more calls run at the same time than allowed.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, width := range []int{1, 3, 20} {
			var running, most atomic.Int64
			calls := make([]atomic.Int64, 10)
			began := time.Now()
			err := guard.Each(t.Context(), width, len(calls), func(i int) {
				if now := running.Add(1); now > most.Load() {
					most.Store(now)
				}
				calls[i].Add(1)
				time.Sleep(time.Second)
				running.Add(-1)
			})
			if err != nil || most.Load() > int64(width) {
				t.Errorf("%v, %d at the same time", err, most.Load())
			}
			if took, want := time.Since(began), (len(calls)+width-1)/width; took != time.Duration(want)*time.Second {
				t.Errorf("width %d: %s", width, took)
			}
			for i := range calls {
				if calls[i].Load() != 1 {
					t.Errorf("%d has %d calls", i, calls[i].Load())
				}
			}
		}
	})
}

// A panic ends the run. Each returns it, also if no other call can be made.
func TestEachPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, run := guard.Begin(t.Context())
		err := guard.Each(ctx, 1, 3, func(int) { panic("a defect") })
		if caught, ok := errors.AsType[*guard.Panic](err); !ok || run.Panic() != caught || ctx.Err() == nil {
			t.Errorf("got %v", err)
		}
	})
}
