package guard

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Run is a run of the program that ends in order when a part of it panics:
// parts for whose error nobody waits tell it through their context.
type Run struct {
	end   context.CancelCauseFunc
	first atomic.Pointer[Panic]
}

type key struct{}

// Begin returns a run and its context, which ends with the first panic that the
// run is told of.
func Begin(ctx context.Context) (context.Context, *Run) {
	r := &Run{}
	ctx, r.end = context.WithCancelCause(ctx)
	return context.WithValue(ctx, key{}, r), r
}

// Panic returns the first panic that the run was told of, nil if there is none.
func (r *Run) Panic() *Panic { return r.first.Load() }

// caught tells the run of ctx of a panic. Without a run nobody would hear of
// it: then it goes on, as if nothing had caught it.
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

// Do calls fn and returns its error, or its panic, which ends the run of ctx,
// too: for errors that are not always passed on.
func Do(ctx context.Context, fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = caught(ctx, value)
		}
	}()
	return fn()
}

// Part returns fn as a part of the run of ctx, which a panic of fn ends: for a
// goroutine without an error.
func Part(ctx context.Context, fn func()) func() {
	return func() {
		_ = Do(ctx, func() error { fn(); return nil })
	}
}

// Go is the go statement for a part of the run of ctx.
func Go(ctx context.Context, fn func()) { go Part(ctx, fn)() }

// Start is Go for a function with an error, which the channel has when it has
// ended; the channel is closed then.
func Start(ctx context.Context, fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- Do(ctx, fn)
	}()
	return ended
}

// AfterFunc is time.AfterFunc for a part of the run of ctx.
func AfterFunc(ctx context.Context, d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, Part(ctx, fn))
}

// AfterDone is context.AfterFunc for a part of the run of ctx.
func AfterDone(ctx context.Context, fn func()) (stop func() bool) {
	return context.AfterFunc(ctx, Part(ctx, fn))
}

// Dial returns dial with its panics as errors that end the run of its context:
// net/http dials in goroutines of its own.
func Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = Do(ctx, func() (err error) {
			conn, err = dial(ctx, network, address)
			return err
		})
		return conn, err
	}
}
