// Package wait holds the ways in which this program waits: each ends when its
// context does.
package wait

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"bootstrap/internal/guard"
)

// For waits for a time, and returns why the context ended if it did so first.
func For(ctx context.Context, d time.Duration) error { return Event(ctx, d, nil) }

// Event waits for an event, for d at most, and returns why the context ended if
// it did so first. A nil event never comes.
func Event(ctx context.Context, d time.Duration, event <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-event:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Poll asks at once and then again after each pause, until the answer is true or
// an error. It returns why the context ended if it did so first.
func Poll(ctx context.Context, pause time.Duration, ask func() (bool, error)) error {
	for {
		done, err := ask()
		if err != nil || done {
			return err
		}
		if err := For(ctx, pause); err != nil {
			return err
		}
	}
}

// Growing are pauses that grow.
type Growing struct{ pauses *backoff.ExponentialBackOff }

// Grow returns pauses that begin with first, and of which each is so many times
// as long as the one before, until they are as long as last.
func Grow(first, last time.Duration, times float64) *Growing {
	return &Growing{&backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: last, Multiplier: times}}
}

// Jitter returns pauses that grow like Grow's and differ by up to half of their
// length, so that those who were refused together do not come back together.
func Jitter(first, last time.Duration) *Growing {
	g := Grow(first, last, backoff.DefaultMultiplier)
	g.pauses.RandomizationFactor = backoff.DefaultRandomizationFactor
	return g
}

// Next returns the length of the next pause.
func (g *Growing) Next() time.Duration { return g.pauses.NextBackOff() }

// Reset begins with the first pause again.
func (g *Growing) Reset() { g.pauses.Reset() }

// Remind calls f after first and then again and again after every, never twice
// at once, until end is called; end waits for a call that has begun. It
// does not end with the context, whose run is told of a panic.
func Remind(ctx context.Context, first, every time.Duration, f func()) (end func()) {
	var mu sync.Mutex
	over := false
	var timer *time.Timer
	mu.Lock() // the timer is set before f can be called
	defer mu.Unlock()
	timer = guard.AfterFunc(ctx, first, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		f()
		timer.Reset(every)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}
