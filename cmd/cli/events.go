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
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// Reports shows the events of a run.
type Reports struct {
	to         *Output
	complete   func(text string) string // completes the commands in a text so that they can be pasted
	show       func(report.Event)       // nil until a command reports something
	path       string                   // path of --events; empty: none
	file       *ui.Lines                // the file at path, open after the first line
	screens    ui.Screens               // text that is drawn again every second
	resultOnly bool                     // standard output has only the result
}

// Renderer returns a function that shows events on a stream: as JSON, as text, or with
// progress bars. It may be called at the same time.
func (r *Reports) Renderer(stream io.Writer) func(report.Event) {
	var mu sync.Mutex
	show := r.unguarded(stream)
	if err := r.openEvents(); err != nil {
		show(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
	if r.file != nil {
		shown, record := show, ui.JSON(r.file)
		show = func(e report.Event) {
			shown(e)
			record(e)
		}
	}
	return r.completedEvents(func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		show(e)
	})
}

// openEvents opens the file of --events, if it is given. The completion of a shell must
// not create a file.
func (r *Reports) openEvents() error {
	asks := len(r.to.Args) > 0 && (r.to.Args[0] == cobra.ShellCompRequestCmd || r.to.Args[0] == cobra.ShellCompNoDescRequestCmd)
	if r.path == "" || r.file != nil || asks {
		return nil
	}
	f, err := regular.Append(r.path)
	if err != nil {
		return fmt.Errorf("--events: cannot write the events to %s: %w", r.path, document.Cause(err))
	}
	r.file = r.to.Redactor.Lines(patient{f}) // closed when the process ends
	return nil
}

// patient is a file whose writes have a deadline, if it is a pipe.
type patient struct{ *os.File }

// readTime is how long the reader of a pipe may take to make room for an event.
const readTime = 30 * time.Second

// Write writes to the file.
func (p patient) Write(data []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(readTime)) // only pipes have deadlines
	return p.File.Write(data)
}

// warnLost warns of events that could not be written to the file.
func (r *Reports) warnLost() {
	if err := r.file.Err(); err != nil {
		message := fmt.Sprintf("--events: cannot write all events to %s: %v", r.path, document.Cause(err))
		r.unguarded(r.to.Stderr)(report.Event{Time: time.Now(), Kind: report.Warning, Message: message})
	}
}

func (r *Reports) unguarded(stream io.Writer) func(report.Event) {
	if r.to.json {
		return ui.JSON(r.to.Redactor.Lines(stream))
	}
	out := r.to.Writer(stream).Long() // for the lines of logs
	f := r.to.Canvas(stream)
	if f == nil {
		return ui.Plain(out)
	}
	show, tick := ui.Terminal(out, widthOf(f))
	r.screens.Add(tick)
	return show
}

// completedEvents completes the commands in events so that they can be pasted. The lines of
// logs are those of other programs, and stay as they are.
func (r *Reports) completedEvents(pass func(report.Event)) func(report.Event) {
	return func(e report.Event) {
		if e.Kind != report.Log {
			e.Message, e.Error = r.complete(e.Message), r.complete(e.Error)
			if e.Plan != nil {
				for i, text := range e.Plan.Warnings {
					e.Plan.Warnings[i] = r.complete(text)
				}
			}
		}
		pass(e)
	}
}

// Events returns the file of --events; nil: there is none.
func (r *Reports) Events() *ui.Lines { return r.file }

// Report reports an event.
func (r *Reports) Report(e report.Event) { r.show(e) }

// ReportBy makes show the function that gets later events.
func (r *Reports) ReportBy(show func(report.Event)) { r.show = show }

// ReportTo shows later events on a stream.
func (r *Reports) ReportTo(stream io.Writer) { r.show = r.Renderer(stream) }

// ReportOnly prints only events of one kind to standard output, and all others to
// standard error.
func (r *Reports) ReportOnly(kind report.Kind) {
	if r.to.json {
		return // these events have their own kinds
	}
	product, rest := r.Renderer(r.to.out), r.Renderer(r.to.Stderr)
	r.ResultOnly()
	r.ReportBy(func(e report.Event) {
		if e.Kind == kind {
			product(e)
		} else {
			rest(e)
		}
	})
}

// ReportWarnings prints only warnings, to a stream, and keeps the standard output for the
// result.
func (r *Reports) ReportWarnings(stream io.Writer) {
	r.ResultOnly()
	show := r.Renderer(stream)
	r.ReportBy(func(e report.Event) {
		if e.Kind == report.Warning {
			show(e)
		}
	})
}

// Warn shows a warning with the events of the run.
func (r *Reports) Warn(message string) { r.Say(report.Warning, message) }

// Say shows a message with the events of the run. A command without events shows it with
// its progress.
func (r *Reports) Say(kind report.Kind, message string) {
	if r.show == nil {
		r.ReportTo(r.to.ProgressStream())
	}
	r.Report(report.Event{Time: time.Now(), Kind: kind, Message: message})
}

// sayTrust reports a key that this machine trusts, even if the command prints only its
// result.
func (r *Reports) sayTrust(message string) {
	r.Renderer(r.to.Stderr)(report.Event{Time: time.Now(), Kind: report.Warning, Message: message})
}

// ResultOnly prints only the result to standard output.
func (r *Reports) ResultOnly() { r.resultOnly = true }
