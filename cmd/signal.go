package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"bootstrap/cpi"
	"bootstrap/internal/guard"
)

// untilStopped runs fn, whose context ends with the first SIGINT, SIGTERM or
// SIGHUP, which a terminal that is closed sends and nohup keeps away. A second
// one does not wait for fn: the error is then a *stoppedError, and the process
// is about to end. A reader of the output that goes away does not end fn, which
// may be in the middle of a change: only commands that are meant to end by a
// signal end then. A panic of any part of fn ends the context, too, and is the
// error.
func (c *console) untilStopped(fn func(context.Context) error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	// It is caught to the very end, because the result is written after fn has
	// ended. If it were ignored, CPIs and packaging scripts would inherit that.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	ctx, run := guard.Begin(context.Background())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := guard.Start(ctx, func() error { return fn(ctx) })
	for {
		select {
		case err := <-done:
			// What ended because of a panic ended well otherwise.
			if panicked := run.Panic(); panicked != nil {
				return panicked
			}
			return err
		case <-signals:
			if ctx.Err() != nil {
				return &stoppedError{calls: c.running.List()}
			}
			cancel()
		case <-pipes:
			if c.ends.Load() {
				cancel()
			}
		}
	}
}

// stoppedError says that the run was stopped at once, in the middle of its work.
type stoppedError struct {
	calls []cpi.Call // CPI calls that continue
}

func (e *stoppedError) Error() string {
	text := "stopped at once"
	for _, call := range e.calls {
		text += fmt.Sprintf("; the CPI continues with %s (process %d)", call.Method, call.PID)
	}
	return text + "; run the same command again: it finds out what was done, and continues"
}

// interrupted says what a run waits for after the first signal.
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
