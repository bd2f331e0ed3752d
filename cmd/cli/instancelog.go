package cli

import (
	"errors"
	"io"

	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
)

// InstanceLog returns functions for the log of a command about one of several instances:
// show writes an event, and end writes how the command ended, as it would be printed for one
// instance, and returns the error for people.
func (c *Console) InstanceLog(log io.Writer) (show func(report.Event), end func(error) error) {
	out := c.Writer(log)
	write := ui.Plain(out)
	var outcome *report.Outcome
	show = func(e report.Event) {
		if e.Kind == report.Ended {
			outcome = e.Outcome
			return
		}
		write(e)
	}
	return show, func(err error) error {
		if panicked, ok := errors.AsType[*guard.Panic](err); ok {
			err = c.reportPanic(panicked)
		}
		if err == nil {
			ui.Succeeded(out, outcome, nil)
		} else {
			code, hint := exit.Judge(err)
			ui.Failed(out, code, err, hint, exit.Name(err))
		}
		_ = out.Flush() // The run does not depend on its logs.
		return err
	}
}
