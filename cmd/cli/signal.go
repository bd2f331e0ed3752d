package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"bootstrap/cmd/exit"
	"bootstrap/cpi"
	"bootstrap/internal/guard"
)

// Signals defines the effect of signals on the command.
type Signals struct {
	running cpi.Running            // the running CPI calls
	ends    atomic.Bool            // a signal or a closed pipe is the normal end of the command
	asking  atomic.Bool            // a question waits for an answer
	left    atomic.Bool            // Ctrl-C is meant for another program on the terminal
	second  atomic.Pointer[func()] // the effect of the second signal; nil: it ends the process
}

// End says whether a signal or a closed pipe is the normal end of the command.
func (s *Signals) End(normal bool) { s.ends.Store(normal) }

// Leave makes this program ignore Ctrl-C, which is meant for another program on the
// terminal, until it is called with false.
func (s *Signals) Leave(leave bool) { s.left.Store(leave) }

// Second returns a channel that is closed by the second signal, which does not end
// the process.
func (s *Signals) Second() <-chan struct{} {
	second := make(chan struct{})
	again := func() { close(second) }
	s.second.Store(&again)
	return second
}

// Asking reports whether a question waits for an answer.
func (s *Signals) Asking() bool { return s.asking.Load() }

// until runs fn with a context that ends with the first SIGINT, SIGTERM or SIGHUP; under
// nohup, SIGHUP stays ignored. After a second signal it does not wait for fn, unless the
// command handles it: the error is a *exit.StoppedError, and the process must end. A
// closed pipe ends only commands whose normal end is a signal: others may be in the
// middle of a change. A panic in any part of fn ends the context, too, and becomes the
// error.
func (s *Signals) until(fn func(context.Context) error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	// SIGPIPE is caught until the end, because the result is written after fn has
	// returned. It is not ignored, because CPIs and packaging scripts would inherit that.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	ctx, run := guard.Begin(context.Background())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := guard.Start(ctx, func() error { return fn(ctx) })
	for {
		select {
		case err := <-done:
			// The panic ended the context, so the other errors are only its
			// consequences.
			if panicked := run.Panic(); panicked != nil {
				return panicked
			}
			return err
		case sent := <-signals:
			if s.left.Load() && (sent == os.Interrupt || ctx.Err() != nil) {
				continue
			}
			second := s.second.Swap(nil)
			switch {
			case ctx.Err() == nil:
				s.second.Store(second)
				cancel()
			case second != nil:
				(*second)()
			default:
				return &exit.StoppedError{Calls: s.running.List()}
			}
		case <-pipes:
			if s.ends.Load() {
				cancel()
			}
		}
	}
}

// interrupted returns a message about what a run waits for after the first signal.
func interrupted(calls []cpi.Call, now time.Time) string {
	if len(calls) == 0 {
		return "Interrupted: finishing the running step; a second Ctrl-C stops at once"
	}
	var what []string
	for _, call := range calls {
		what = append(what, fmt.Sprintf("%s (running for %s)", call.Method, now.Sub(call.Since).Round(time.Second)))
	}
	return fmt.Sprintf("Interrupted: finishing the CPI's %s; a second Ctrl-C stops at once, and the CPI finishes alone", strings.Join(what, ", "))
}
