// Package wait contains the ways in which this program waits: each wait ends
// when its context does.
package wait

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"bootstrap/internal/guard"
)

// For waits for a time. It returns the cause of the context if the context ends first.
func For(ctx context.Context, d time.Duration) error { return Event(ctx, d, nil) }

// Event waits for an event, at most for d. It returns the cause of the context
// if that ends first. A nil event never happens.
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

// Poll calls the function at once and then after each pause, until it returns true or an
// error. It returns the cause of the context if the context ends first.
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

// Growing is a sequence of growing pauses.
type Growing struct{ pauses *backoff.ExponentialBackOff }

// Grow returns pauses that begin with first and grow by a factor up to last.
func Grow(first, last time.Duration, times float64) *Growing {
	return &Growing{&backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: last, Multiplier: times}}
}

// Jitter returns pauses that grow like those of Grow and differ by up to half of
// their length, so that several clients do not try again at the same time.
func Jitter(first, last time.Duration) *Growing {
	g := Grow(first, last, backoff.DefaultMultiplier)
	g.pauses.RandomizationFactor = backoff.DefaultRandomizationFactor
	return g
}

// Next returns the length of the next pause.
func (g *Growing) Next() time.Duration { return g.pauses.NextBackOff() }

// Reset starts again with the first pause.
func (g *Growing) Reset() { g.pauses.Reset() }

// Remind calls f after first and then again after every, never twice at the same time,
// until end is called; end waits for a running call. It does not stop when the context
// ends; panics are reported to the run of the context.
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
