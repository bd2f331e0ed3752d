package wait

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bootstrap/internal/guard"
)

var errAsked = errors.New("asked to stop")

func TestForReturnsWhyTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAsked)
		defer cancel()
		start := time.Now()
		if err := For(ctx, 40*time.Second); err != nil {
			t.Error(err)
		}
		if err := For(ctx, 40*time.Second); !errors.Is(err, errAsked) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("waited for %s", waited)
		}
	})
}

func TestEventEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(event) })
		start := time.Now()
		if err := Event(t.Context(), time.Hour, event); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited for %s", waited)
		}
	})
}

func TestPollAsksAtOnceAndThenAfterEachPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked []time.Duration
		err := Poll(t.Context(), time.Second, func() (bool, error) {
			asked = append(asked, time.Since(start))
			return len(asked) == 3, nil
		})
		if err != nil || !slices.Equal(asked, []time.Duration{0, time.Second, 2 * time.Second}) {
			t.Errorf("asked after %v, %v", asked, err)
		}
		if err := Poll(t.Context(), time.Second, func() (bool, error) { return false, errAsked }); err != errAsked {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Poll(ctx, time.Second, func() (bool, error) { return false, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestGrow(t *testing.T) {
	g := Grow(time.Second, 5*time.Second, 2)
	var got []time.Duration
	for range 5 {
		got = append(got, g.Next()/time.Second)
	}
	g.Reset()
	got = append(got, g.Next()/time.Second)
	if !slices.Equal(got, []time.Duration{1, 2, 4, 5, 5, 1}) {
		t.Errorf("got %v", got)
	}
}

func TestRemindUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		end := Remind(t.Context(), 5*time.Second, 30*time.Second, func() { calls.Add(1) })
		for _, step := range []struct {
			after time.Duration
			calls int32
		}{{4 * time.Second, 0}, {time.Second, 1}, {30 * time.Second, 2}, {30 * time.Second, 3}} {
			time.Sleep(step.after)
			synctest.Wait()
			if calls.Load() != step.calls {
				t.Errorf("%d calls, want %d", calls.Load(), step.calls)
			}
		}
		end()
		time.Sleep(time.Hour)
		synctest.Wait()
		if calls.Load() != 3 {
			t.Errorf("called %d times", calls.Load())
		}
	})
}

func TestRemindTellsTheRunOfAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, run := guard.Begin(t.Context())
		end := Remind(ctx, time.Second, time.Second, func() { panic(errAsked) })
		<-ctx.Done()
		end() // end can be called here because the function holds no lock
		if p := run.Panic(); p == nil || p.Value != errAsked {
			t.Errorf("the panic is %v", p)
		}
	})
}
