package agent

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/fulldisk"
)

// Error is an exception from the agent: it received the message and could not do its
// work.
type Error struct {
	Method  string // run_script, get_state, …
	Message string // the agent's words, without its envelope and without secrets
	// Jobs are the jobs whose scripts failed, if the agent names them.
	Jobs  []string
	doing string
}

// maxMessage is how many bytes of the agent's message an error contains.
const maxMessage = 4000

func (e *Error) Error() string {
	text := e.Message
	if len(text) > maxMessage {
		head := strings.ToValidUTF8(text[:maxMessage], "")
		text = fmt.Sprintf("%s… (%d more bytes)", head, len(text)-len(head))
	}
	return fmt.Sprintf("cannot %s: the agent says: %s", e.doing, text)
}

func (e *Error) Name() string { return "agent-refused" }

// Is makes errors.Is(err, ENOSPC) true if the agent's disk is full.
func (e *Error) Is(target error) bool { return target == syscall.ENOSPC && fulldisk.Says(e.Message) }

// UnknownMessage reports whether the agent does not know the message.
func UnknownMessage(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.HasPrefix(e.Message, "unknown message ")
}

// UnknownTask reports whether the agent does not know the task because it has restarted
// since.
func UnknownTask(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.HasPrefix(e.Message, "Task with id ") && strings.HasSuffix(e.Message, " could not be found")
}

// StopError is an Error of Stop: some processes did not end within five minutes or
// ended with a failure. The caller can still use StopAsync.
type StopError struct {
	Services []string // the processes that the agent names; empty: it names none
	Err      *Error
}

func (e *StopError) Error() string { return e.Err.Error() }
func (e *StopError) Unwrap() error { return e.Err }

// TaskLostError says that the result of a task is lost: the agent restarted and forgot
// the task, or was silent for too long.
type TaskLostError struct {
	Method    string
	Restarted bool  // the agent answers, but does not know the task
	Err       error // error of the last poll of the task
	doing     string
}

func (e *TaskLostError) Error() string {
	if e.Restarted {
		return fmt.Sprintf("cannot %s: the agent restarted in the middle of it", e.doing)
	}
	var silent *UnreachableError
	if errors.As(e.Err, &silent) {
		return fmt.Sprintf("cannot %s: in the middle of it, %s", e.doing, silent.story())
	}
	return fmt.Sprintf("cannot %s: in the middle of it, the agent stopped answering: %v", e.doing, e.Err)
}

func (e *TaskLostError) Name() string { return "agent-task-lost" }

func (e *TaskLostError) ExitCode() failure.Code {
	if silent, ok := errors.AsType[*UnreachableError](e.Err); ok {
		return silent.ExitCode()
	}
	return failure.Failed
}

func (e *TaskLostError) Hint() string {
	if silent, ok := errors.AsType[*UnreachableError](e.Err); ok {
		return silent.Hint()
	}
	return nextSilent
}

func (e *TaskLostError) Unwrap() error { return e.Err }

// TaskTimeoutError says that a task ran longer than Config.TaskTimeout. It may still be
// running.
type TaskTimeoutError struct {
	Method string
	After  time.Duration
	Ended  bool // the agent agreed to cancel it
	doing  string
}

func (e *TaskTimeoutError) Error() string {
	return fmt.Sprintf("cannot %s: not done after %s, the time limit of --task-timeout; %s", e.doing, e.After, leftover(e.Ended))
}

func (e *TaskTimeoutError) Name() string { return "agent-task-timeout" }

func (e *TaskTimeoutError) Hint() string {
	return `run the same command again, with a longer --task-timeout if the task needs it; if it hangs, "bootstrap deploy MANIFEST --fix" reboots the VM`
}

// leftover says what happens to a task for which the client has stopped waiting.
func leftover(ended bool) string {
	if ended {
		return "it was cancelled on the VM"
	}
	return "it may still run on the VM"
}

// TaskLeftError says that the client stopped waiting for a task because the context
// ended.
type TaskLeftError struct {
	Method string
	Ended  bool  // the agent agreed to cancel it
	Err    error // why the context ended
	doing  string
}

func (e *TaskLeftError) Error() string {
	return fmt.Sprintf("cannot %s: stopped waiting for it, %s: %v", e.doing, leftover(e.Ended), e.Err)
}

func (e *TaskLeftError) Unwrap() error { return e.Err }

// BusyError says that the agent answers, but still works on a task of another run.
type BusyError struct {
	Waited time.Duration // how long the client waited for the end of that task
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the agent answers, but still works on a task of an earlier run (a script, a compilation, a drain or a migration), which was waited for %s", e.Waited.Round(time.Second))
}

func (e *BusyError) Name() string { return "agent-busy" }

// UnreachableError says that a message did not reach an agent, or that its reply did
// not return.
type UnreachableError struct {
	Address string        // host:port
	Method  string        // the message, or upload, download; empty from WaitReady
	Waited  time.Duration // how long WaitReady tried
	Last    Probe         // result of the last attempt
	Met     []Probe       // WaitReady: the distinct findings in order, including Last
	// Sent is true if the whole message was sent, so that the agent may be
	// working on it.
	Sent  bool
	doing string
}

// Error ends with the hint of the last probe.
func (e *UnreachableError) Error() string {
	if e.Method == "" && e.Last.Cause == Unauthorized {
		return fmt.Sprintf("cannot log in to the agent, tried for %s: %s", e.Waited.Round(time.Second), e.story())
	}
	if e.Method == "" {
		return fmt.Sprintf("cannot reach the agent, tried for %s: %s", e.Waited.Round(time.Second), e.story())
	}
	return fmt.Sprintf("cannot %s: %s", e.doing, e.story())
}

func (e *UnreachableError) Name() string {
	switch e.Last.Cause {
	case CertificateExpired, CertificateNotYet, CertificateName, CertificateUnknown, CertificateUnsuitable, NotTLS, TLSFailed:
		return "agent-certificate"
	case Unauthorized:
		return "agent-password"
	case TunnelDown, Proxy:
		return "agent-tunnel"
	}
	return "agent-unreachable"
}

func (e *UnreachableError) ExitCode() failure.Code { return failure.Agent }

func (e *UnreachableError) Hint() string {
	if e.Last.Cause == Unauthorized {
		return "the agent runs, and does not accept this password: use the vars store of the last deploy, or ask the person who changed it for the password; if you know the old one, `bootstrap deploy MANIFEST --old-mbus https://USER:PASSWORD@HOST:PORT` changes it to the new one"
	}
	return nextSilent
}

// nextSilent is the hint for an agent that stopped answering during a run.
const nextSilent = `run the same command again to continue; if the agent stays silent, "bootstrap deploy MANIFEST --fix" reboots the VM first and replaces it only if that does not help`

// story returns the error without its beginning, which names the action.
func (e *UnreachableError) story() string {
	var b strings.Builder
	answers := ""
	if e.Last.Cause == Unauthorized {
		answers = " answers"
	}
	fmt.Fprintf(&b, "the agent at %s%s: %s", e.Address, answers, e.Last)
	if len(e.Met) > 1 {
		causes := make([]string, 0, len(e.Met)-1)
		for _, p := range e.Met[:len(e.Met)-1] {
			causes = append(causes, string(p.Cause))
		}
		fmt.Fprintf(&b, "; before that: %s", strings.Join(causes, ", "))
	}
	if e.Sent {
		b.WriteString("; it may have received the message and be working on it")
	}
	if e.Last.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Last.Hint)
	}
	return b.String()
}

// Unwrap returns the error of the last probe.
func (e *UnreachableError) Unwrap() error { return e.Last.Err }

// quoted is an error whose text contains no secrets. It unwraps to the original error.
type quoted struct {
	text string
	err  error
}

func (q *quoted) Error() string { return q.text }
func (q *quoted) Unwrap() error { return q.err }

// envelope matches the text that the agent puts around the cause of a failure.
var envelope = regexp.MustCompile(`^Action Failed [a-z_]+: (?:Task [^ ]+ result: )?`)

func (c *Client) exception(method, doing string, e *Exception) *Error {
	text := strings.TrimSpace(envelope.ReplaceAllString(e.Message, ""))
	if text == "" {
		text = "(nothing)"
	}
	refusal := &Error{Method: method, Message: c.clean(text), doing: doing}
	if m := failedJobs.FindStringSubmatch(text); m != nil {
		refusal.Jobs = strings.Split(m[1], ", ")
	}
	return refusal
}

// failedJobs finds the names of jobs in the agent's text about failed scripts.
var failedJobs = regexp.MustCompile(`Failed Jobs: (.+?)\.(?: |$)`)

// stoppable finds the names of processes in the agent's text about a failed stop.
var stoppable = regexp.MustCompile(`services '([^']*)'`)

func stopError(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	stop := &StopError{Err: e}
	if m := stoppable.FindStringSubmatch(e.Message); m != nil {
		// Both forms occur: "a, b" and "[a b]".
		stop.Services = strings.FieldsFunc(m[1], func(r rune) bool { return strings.ContainsRune(" ,[]", r) })
	}
	return stop
}
