package cpi

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"bootstrap/internal/failure"
	"bootstrap/internal/fulldisk"
	"bootstrap/internal/printable"
)

// Error is an error that the CPI itself reports, in the form of the protocol.
type Error struct {
	Method  string
	Type    string // e.g. Bosh::Clouds::VMNotFound
	Message string // redacted
	// OKToRetry says that the CPI has cleaned up after the failure. The client has then
	// already tried Tries times.
	OKToRetry bool
	Tries     int
	Log       string // file with the whole message; may be empty
}

// maxMessage is how many bytes of a CPI's message an error contains.
const maxMessage = 4000

func (e *Error) Error() string {
	text := fmt.Sprintf("the CPI refuses %s: %s (%s)", e.Method, excerpt(e.Message, maxMessage, e.Log), e.Type)
	if e.Tries > 1 {
		text += fmt.Sprintf(", after %d tries", e.Tries)
	}
	return text
}

func (e *Error) Name() string { return "cpi-refused" }

func (e *Error) ExitCode() failure.Code { return failure.CPI }

// Is makes errors.Is(err, ENOSPC) true if the CPI's disk is full.
func (e *Error) Is(target error) bool { return target == syscall.ENOSPC && fulldisk.Says(e.Message) }

// StartError says that the CPI was not started and nothing was done.
type StartError struct {
	Method string
	Err    error
}

func (e *StartError) Error() string { return fmt.Sprintf("cannot call %s: %v", e.Method, e.Err) }

func (e *StartError) Name() string { return "cpi-start" }

func (e *StartError) Unwrap() error { return e.Err }

// ExitError says that the CPI ended without a reply, with Status or by a
// signal.
type ExitError struct {
	Method string
	Status string // as from os.ProcessState: "exit status 3", "signal: killed"
	Stderr string // last lines of standard error, redacted
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("cannot get a reply to %s: the CPI ended with %s", e.Method, e.Status)
	if e.Stderr != "" {
		return text + "; its last lines:\n" + e.Stderr
	}
	return text + " and said nothing"
}

func (e *ExitError) Name() string { return "cpi-ended" }

// Is makes errors.Is(err, ENOSPC) true if the CPI's disk is full.
func (e *ExitError) Is(target error) bool { return target == syscall.ENOSPC && fulldisk.Says(e.Stderr) }

// GarbageError says that the standard output was not exactly one JSON reply.
type GarbageError struct {
	Method string
	Reason string
	Head   string // first lines of standard output, redacted
}

func (e *GarbageError) Error() string {
	text := fmt.Sprintf("cannot read the CPI's reply to %s: %s", e.Method, e.Reason)
	if e.Head != "" {
		return text + "; it begins:\n" + e.Head
	}
	return text
}

func (e *GarbageError) Name() string { return "cpi-reply" }

// ResultError says that the result of a call does not have the type of its
// method.
type ResultError struct {
	Method string
	Want   string
	Got    string // shortened, redacted
}

func (e *ResultError) Error() string {
	return fmt.Sprintf("cannot use the CPI's result of %s: want %s, got %s", e.Method, e.Want, e.Got)
}

func (e *ResultError) Name() string { return "cpi-reply" }

// TimeoutError says that the CPI did not end before its deadline. Its process
// group was killed, and what it was creating may or may not exist.
type TimeoutError struct {
	Method string
	After  time.Duration
	Stderr string // last lines of standard error, redacted
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("cannot finish %s: the CPI gave no reply within %s and its processes were killed; whether it did its work is unknown", e.Method, e.After)
	if e.Stderr != "" {
		return text + "; its last lines:\n" + e.Stderr
	}
	return text
}

func (e *TimeoutError) Name() string { return "cpi-timeout" }

// Timeout returns true, as for a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// NotPermitted reports whether the error says that the account of the CPI has no
// permission for the method.
func NotPermitted(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == TypeInsufficientPermissions
}

// NotImplemented reports whether the error says that the CPI does not have the method.
// CPIs use different words for that.
func NotImplemented(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Type {
	case TypeNotImplemented:
		return true
	case TypeCloudError:
		return strings.HasPrefix(e.Message, "Invalid Method:")
	case "InvalidCall":
		return strings.HasPrefix(e.Message, "Method is not known, got")
	}
	return false
}

// NotSupported reports whether the error says that the CPI has the method, but does not
// support these arguments.
func NotSupported(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == TypeNotSupported
}

// NotFound reports whether the VM, disk or stemcell of the call does not exist.
func NotFound(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Type == TypeVMNotFound || e.Type == TypeDiskNotFound || e.Type == TypeStemcellNotFound
}

// StemcellGone reports whether the CPI says that this stemcell does not exist. BOSH has
// an error type for that, but most CPIs use a CloudError; for these, the message is
// examined: "could not find AMI 'ami-1'", "Image `5b1e' not found".
func StemcellGone(err error, cid string) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	name, _, _ := strings.Cut(cid, " ") // the CPI calls "ami-1 light" ami-1
	if e.Type == TypeStemcellNotFound || name == "" {
		return e.Type == TypeStemcellNotFound
	}
	name = regexp.QuoteMeta(name)
	gone, err := regexp.Compile(`(?i)(?:could not find|cannot find|unable to find|expected to find|no such image)[^;,\n]{0,24}[^-\w]` + name + `(?:[^-\w]|$)` +
		`|(?:^|[^-\w])` + name + `\W{1,3}(?:does not exists?|(?:was |is )?not found|could not be found)`)
	return err == nil && gone.MatchString(e.Message)
}

// shorten returns at most n bytes of the text, and never half a character.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// excerpt is like shorten, but also says how much is missing and which file contains the
// whole text.
func excerpt(text string, n int, file string) string {
	short := shorten(text, n)
	if short == text {
		return text
	}
	left := len(text) - len(short) + len("…")
	if file == "" {
		return fmt.Sprintf("%s (%d more bytes)", short, left)
	}
	return fmt.Sprintf("%s (%d more bytes in %s)", short, left, file)
}

// firstLines and lastLines return a few lines of a redacted text.
func firstLines(text string) string {
	lines := strings.Split(strings.TrimSpace(printable.Text(text)), "\n")
	if len(lines) > 5 {
		lines = append(lines[:5], "…")
	}
	return shorten(strings.Join(lines, "\n"), 1000)
}

func lastLines(text string) string {
	text = strings.TrimSpace(printable.Text(text))
	if len(text) > 2000 {
		from := len(text) - 2000
		for from < len(text) && !utf8.RuneStart(text[from]) {
			from++
		}
		text = "…" + text[from:]
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	return strings.Join(lines, "\n")
}
