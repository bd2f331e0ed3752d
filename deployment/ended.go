package deployment

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/failure"
)

// EndedError says that a run of a deployment did not end well.
type EndedError struct {
	Deployment  string
	Does        Lifecycle // the command about jobs; empty: a deploy or delete
	Failures    []string  // what failed, each with its reason
	Continued   bool      // the run continued after failures
	Left        int       // instances that were not started
	Interrupted int       // instances that a signal ended at a safe step; 0 unless Signal
	Signal      bool      // a signal ended the run
	Previous    bool      // a deploy has succeeded before
}

func (e *EndedError) Hint() string {
	if !e.Previous || e.Signal {
		return ""
	}
	return `correct the cause and deploy again, or "bootstrap deploy MANIFEST --previous" deploys the last version that succeeded again`
}

func (e *EndedError) Error() string {
	if e.Signal {
		return e.interruption()
	}
	separator := e.separator()
	if e.Does != "" {
		text := fmt.Sprintf("cannot %s all instances of the deployment %q:%s", e.Does, e.Deployment, e.list(separator))
		if e.Left > 0 {
			text += fmt.Sprintf("%s%d were left as they are", separator, e.Left)
		}
		return text + separator + "run the same command again when that is fixed"
	}
	text := fmt.Sprintf("the deployment %q is not as the manifest says:%s%s", e.Deployment, e.list(separator), separator)
	if e.Left > 0 {
		text += fmt.Sprintf("%d instances were not started; ", e.Left)
	}
	return text + "the same command does what is left"
}

// list returns the failures as text after a colon; with a line for each, if the run continued
// after some.
func (e *EndedError) list(separator string) string {
	if e.Continued && len(e.Failures) > 1 {
		return "\n- " + strings.Join(e.Failures, "\n- ")
	}
	return " " + strings.Join(e.Failures, separator)
}

// separator returns the text between the failures and the advice: a line break if there is a
// list, or a failure has several lines, such as a log.
func (e *EndedError) separator() string {
	if e.Continued && len(e.Failures) > 1 || slices.ContainsFunc(e.Failures, func(f string) bool { return strings.Contains(f, "\n") }) {
		return "\n"
	}
	return "; "
}

// interruption returns the message of a run that a signal ended.
func (e *EndedError) interruption() string {
	parts := []string{fmt.Sprintf("the run on the deployment %q was interrupted", e.Deployment)}
	if e.Interrupted > 0 {
		parts = append(parts, fmt.Sprintf("%d instances ended at a safe step", e.Interrupted))
	}
	if e.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d instances were not started", e.Left))
	}
	parts = append(parts, e.Failures...)
	return strings.Join(append(parts, "nothing is lost: run the same command again to continue"), "; ")
}

func (e *EndedError) ExitCode() failure.Code {
	if e.Signal {
		return failure.Interrupted
	}
	return failure.Failed
}

func (e *EndedError) Name() string {
	if e.Signal {
		return "interrupted"
	}
	return "instances-failed"
}
