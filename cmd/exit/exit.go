// Package exit decides about the end of a command: exit code, hint, and the page that
// explains the error.
package exit

import (
	"fmt"
	"math"
	"slices"

	"bootstrap/cpi"
	"bootstrap/internal/failure"
)

// The exit codes, as commands return them.
const (
	Done        = int(failure.Done)
	Failed      = int(failure.Failed)
	Changes     = int(failure.Changes)
	Usage       = int(failure.Usage)
	Manifest    = int(failure.Manifest)
	NoState     = int(failure.NoState)
	Agent       = int(failure.Agent)
	CPI         = int(failure.CPI)
	Moved       = int(failure.Moved)
	PutBack     = int(failure.PutBack)
	Locked      = int(failure.Locked)
	Unsent      = int(failure.Unsent)
	NotBelieved = int(failure.NotBelieved)
	Interrupted = int(failure.Interrupted)
)

// Code is the error of a child process that has printed its own message.
type Code int

func (e Code) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func (e Code) ExitCode() failure.Code { return failure.Code(e) }

// An error of this program may have up to three methods; those of the libraries have none:
//
//	Name() string            // of the page that explains it; see Names
//	ExitCode() failure.Code // unless it is Failed
//	Hint() string            // what to do, unless the error says that
type (
	coded  interface{ ExitCode() failure.Code }
	hinted interface{ Hint() string }
)

// Judge returns the exit code of an error and, if it can add anything to the
// error's text, a hint. No other function chooses exit codes.
func Judge(err error) (code int, hint string) {
	if err == nil {
		return Done, ""
	}
	code = Failed
	decides := decider(err)
	if e, ok := decides.(coded); ok {
		code = int(e.ExitCode())
	}
	if e, ok := decides.(hinted); ok {
		hint = e.Hint()
	}
	return code, hint
}

// decider returns the error that decides: an interruption, or the outermost error with an
// exit code or a hint; nil: there is none. Among joined errors, it is the one whose name
// comes first in Names.
func decider(err error) error {
	var interruption error
	each(err, func(err error) {
		if e, ok := err.(coded); ok && interruption == nil && e.ExitCode() == failure.Interrupted {
			interruption = err
		}
	})
	if interruption != nil {
		return interruption
	}
	return outermost(err)
}

// outermost returns the outermost error with an exit code or a hint.
func outermost(err error) error {
	switch err.(type) {
	case coded, hinted:
		return err
	}
	var best error
	for _, wrapped := range unwrap(err) {
		if e := outermost(wrapped); e != nil && (best == nil || rank(e) < rank(best)) {
			best = e
		}
	}
	return best
}

// unwrap returns the errors that an error wraps.
func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if wrapped := e.Unwrap(); wrapped != nil {
			return []error{wrapped}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// rank returns the position of the error's name in Names; errors without a name come
// last.
func rank(err error) int {
	if at := slices.Index(Names(), Name(err)); at >= 0 {
		return at
	}
	return math.MaxInt
}

// UsageError says that a command line is wrong.
type UsageError struct {
	Err     error
	Command string // the command whose help explains more: "bootstrap state rm"
}

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) ExitCode() failure.Code { return failure.Usage }

func (e *UsageError) Hint() string { return "see " + e.Command + " --help" }

func (e *UsageError) Unwrap() error { return e.Err }

// ChangesError says that a plan contains changes; it is not a failure.
type ChangesError struct{}

func (e *ChangesError) Error() string { return "there are changes" }

func (e *ChangesError) ExitCode() failure.Code { return failure.Changes }

// StoppedError says that a second signal stopped the run at once, in the middle
// of its work.
type StoppedError struct {
	Calls []cpi.Call // CPI calls that continue
}

func (e *StoppedError) Error() string {
	text := "stopped at once"
	for _, call := range e.Calls {
		text += fmt.Sprintf("; the CPI continues with %s (process %d)", call.Method, call.PID)
	}
	return text + "; run the same command again: it finds out what was done, and continues"
}

func (e *StoppedError) ExitCode() failure.Code { return failure.Interrupted }

func (e *StoppedError) Name() string { return "stopped-at-once" }
