package guard

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// Run is a run of the program that ends with a clean-up when a part of it panics. If
// nobody waits for the error of a part, the part reports a panic through its context.
type Run struct {
	end   context.CancelCauseFunc
	first atomic.Pointer[Panic]
}

type key struct{}

// Begin returns a run and its context, which ends with the first reported panic.
func Begin(ctx context.Context) (context.Context, *Run) {
	r := &Run{}
	ctx, r.end = context.WithCancelCause(ctx)
	return context.WithValue(ctx, key{}, r), r
}

// Panic returns the first reported panic, or nil.
func (r *Run) Panic() *Panic { return r.first.Load() }

// caught reports a panic to the run of ctx. Without a run the panic would be
// lost, so it continues as if it had not been caught.
func caught(ctx context.Context, value any) *Panic {
	p := newPanic(value)
	r, ok := ctx.Value(key{}).(*Run)
	if !ok {
		panic(p)
	}
	r.first.CompareAndSwap(nil, p)
	r.end(p)
	return p
}

// Do calls fn and returns its error, or its panic, which also ends the run of ctx. It is
// for functions whose errors are not always returned to the run.
func Do(ctx context.Context, fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = caught(ctx, value)
		}
	}()
	return fn()
}

// Part returns fn as a part of the run of ctx: a panic of fn ends the run. It is for
// functions without an error.
func Part(ctx context.Context, fn func()) func() {
	return func() {
		_ = Do(ctx, func() error { fn(); return nil })
	}
}

// Go starts fn in a goroutine, as a part of the run of ctx.
func Go(ctx context.Context, fn func()) { go Part(ctx, fn)() }

// Start is like Go, for a function with an error. The channel gets the error
// when fn has ended, and is then closed.
func Start(ctx context.Context, fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- Do(ctx, fn)
	}()
	return ended
}

// Each calls fn for each number below n, at most width at the same time, as parts of the
// run of ctx. It returns when all calls have ended; the error is a panic of fn. It also
// calls fn after the end of ctx: fn decides what that means.
func Each(ctx context.Context, width, n int, fn func(i int)) error {
	var next atomic.Int64
	workers := make([]<-chan error, min(width, n))
	for w := range workers {
		workers[w] = Start(ctx, func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				fn(int(i))
			}
			return nil
		})
	}
	var errs []error
	for _, w := range workers {
		errs = append(errs, <-w)
	}
	return errors.Join(errs...)
}

// AfterFunc is like time.AfterFunc, for a part of the run of ctx.
func AfterFunc(ctx context.Context, d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, Part(ctx, fn))
}

// AfterDone is like context.AfterFunc, for a part of the run of ctx.
func AfterDone(ctx context.Context, fn func()) (stop func() bool) {
	return context.AfterFunc(ctx, Part(ctx, fn))
}

// Dial returns dial with its panics as errors that end the run of its context:
// net/http dials in its own goroutines.
func Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = Do(ctx, func() (err error) {
			conn, err = dial(ctx, network, address)
			return err
		})
		return conn, err
	}
}
