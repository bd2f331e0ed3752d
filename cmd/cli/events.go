package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

// Renderer returns a function that shows events on a stream: as JSON, as text,
// or with progress bars. It is safe for concurrent use.
func (c *Console) Renderer(stream io.Writer) func(report.Event) {
	var mu sync.Mutex
	show := c.unguarded(stream)
	if err := c.openEvents(); err != nil {
		show(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
	if c.events.file != nil {
		shown, record := show, ui.JSON(c.events.file)
		show = func(e report.Event) {
			shown(e)
			record(e)
		}
	}
	return c.completedEvents(func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		show(e)
	})
}

// openEvents opens the file to which events are appended, if one is named. A shell
// that asks what may follow on a command line must leave no file.
func (c *Console) openEvents() error {
	asks := len(c.Args) > 0 && (c.Args[0] == cobra.ShellCompRequestCmd || c.Args[0] == cobra.ShellCompNoDescRequestCmd)
	if c.given.eventsPath == "" || c.events.file != nil || asks {
		return nil
	}
	f, err := os.OpenFile(c.given.eventsPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("--events: cannot write the events to %s: %w", c.given.eventsPath, document.Cause(err))
	}
	c.events.file = c.Redactor.Lines(f) // closed when the process ends
	return nil
}

func (c *Console) unguarded(stream io.Writer) func(report.Event) {
	if c.given.json {
		return ui.JSON(c.Redactor.Lines(stream))
	}
	out := c.Writer(stream)
	f := c.Canvas(stream)
	if f == nil {
		return ui.Plain(out)
	}
	show, tick := ui.Terminal(out, widthOf(f))
	c.events.screens.Add(tick)
	return show
}

// completedEvents passes on events with commands that can be pasted.
func (c *Console) completedEvents(pass func(report.Event)) func(report.Event) {
	return func(e report.Event) {
		e.Message, e.Error = c.WithTarget(e.Message), c.WithTarget(e.Error)
		pass(e)
	}
}

// Events returns the file of --events; nil: there is none.
func (c *Console) Events() *ui.Lines { return c.events.file }

// Report passes on an event.
func (c *Console) Report(e report.Event) { c.events.show(e) }

// ReportBy lets show have the events from now on.
func (c *Console) ReportBy(show func(report.Event)) { c.events.show = show }

// ReportTo shows events on a stream from now on.
func (c *Console) ReportTo(stream io.Writer) { c.events.show = c.Renderer(stream) }

// ReportOnly prints only events of one kind to standard output, and all others to
// standard error.
func (c *Console) ReportOnly(kind report.Kind) {
	if c.given.json {
		return // the events have their own kinds
	}
	product, rest := c.Renderer(c.out), c.Renderer(c.Stderr)
	c.ResultOnly()
	c.ReportBy(func(e report.Event) {
		if e.Kind == kind {
			product(e)
		} else {
			rest(e)
		}
	})
}

// ReportWarnings prints only warnings, to a stream, and keeps the standard output for the
// result.
func (c *Console) ReportWarnings(stream io.Writer) {
	c.ResultOnly()
	show := c.Renderer(stream)
	c.ReportBy(func(e report.Event) {
		if e.Kind == report.Warning {
			show(e)
		}
	})
}

// Warn prints a warning to standard error, beside the result.
func (c *Console) Warn(message string) { c.Say(report.Warning, message) }

// Say prints a message to standard error, beside the result.
func (c *Console) Say(kind report.Kind, message string) {
	if c.events.show == nil {
		c.ReportTo(c.ProgressStream())
	}
	c.Report(report.Event{Time: time.Now(), Kind: kind, Message: message})
}

// sayTrust says what this machine trusts from now on, also for commands that print only
// their result.
func (c *Console) sayTrust(message string) {
	c.Renderer(c.Stderr)(report.Event{Time: time.Now(), Kind: report.Warning, Message: message})
}

// ProgressStream returns the stream for progress of a command that prints its result to
// standard output. With --json, that is standard output, too: the kinds
// distinguish them.
func (c *Console) ProgressStream() io.Writer {
	if c.given.json {
		return c.out
	}
	return c.Stderr
}
