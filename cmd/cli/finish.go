package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// holderIn returns the deployment that has the refused address; nil: err is about
// something else.
func holderIn(err error) *report.Holder {
	refused, ok := errors.AsType[*network.Refused](err)
	if !ok || refused.Kind != network.AlreadyInUse || len(refused.Holders) != 1 {
		return nil
	}
	h := refused.Holders[0]
	return &report.Holder{Address: h.Address(), Network: h.Network, Deployment: h.Owner.Deployment, Name: h.Owner.Name, Instance: h.Owner.Instance}
}

// finish prints the end of the command, and returns its exit code. No other function
// prints it.
func (c *Console) finish(err error) int {
	code, err := c.Ended(err)
	if lost := c.out.lost(); lost != nil && (c.json || !failure(err)) {
		code = exit.Failed
		c.failed(code, fmt.Errorf("cannot write to the standard output: %w; the command itself has finished", lost), "")
	}
	return code
}

// Ended prints the end of the command, or of one deploy of many. It returns its exit code
// and the error as it was printed.
func (c *Console) Ended(err error) (int, error) {
	if wantsJSON(c.Args) && !c.line.understood {
		c.json = true // The flag may follow the mistake on the command line.
	}
	if _, usage := err.(*exit.UsageError); usage {
		c.Redactor.Add(valuesIn(c.Args)...)
	}
	var panicked *guard.Panic
	if errors.As(err, &panicked) {
		err = c.reportPanic(panicked)
	}
	code, hint := exit.Judge(err)
	hint = c.WithTarget(hint)
	if err != nil {
		err = &completed{err, c.WithTarget(err.Error())}
	}
	c.printEnd(code, err, hint)
	if c.openEvents() == nil && c.Reports.file != nil { // If this fails, the first event has reported why.
		shown := err
		if !failure(shown) {
			shown = nil
		}
		c.printTimings(c.Reports.file)
		ui.JSONResult(c.Reports.file, c.resultOf(code, shown, hint))
		c.Reports.warnLost()
	}
	return code, err
}

// SeveralEnded makes the end of the command report what a run about several instances has
// done, below the plan that was printed.
func (c *Console) SeveralEnded(o *report.Outcome) { c.end.outcome, c.quiet = o, false }

// printEnd prints the end of the output.
func (c *Console) printEnd(code int, err error, hint string) {
	printed := err != nil && !failure(err) // the command itself has printed the result
	if printed {
		err = nil
	}
	if c.given.timings && c.end.timeline != nil && !c.json {
		out := c.Writer(c.out)
		ui.Timings(out, c.end.timeline)
		_ = out.Flush() // The method finish reports the error.
	}
	switch {
	case err == nil && c.end.silent:
	case c.json:
		out := c.Redactor.Lines(c.out)
		c.printTimings(out)
		printProblemsIn(out, err)
		ui.JSONResult(out, c.resultOf(code, err, hint))
	case err != nil:
		c.failed(code, err, hint)
	case !printed && !c.quiet && c.Reports.show != nil:
		stream := io.Writer(c.out)
		if c.resultOnly {
			stream = c.Stderr
		}
		out := c.Writer(stream)
		ui.Succeeded(out, c.end.outcome, c.nextAfter(code, ""))
		_ = out.Flush()
	}
}

// printTimings prints the timings of the run for programs, with --timings.
func (c *Console) printTimings(out *ui.Lines) {
	if c.given.timings && c.end.timeline != nil {
		out.Print("timings", c.end.timeline)
	}
}

// resultOf returns the end of a run for programs.
func (c *Console) resultOf(code int, err error, hint string) ui.Result {
	r := ui.Result{Status: report.Finished, ExitCode: code, Hint: hint, Explain: exit.Name(err), HeldBy: holderIn(err), Outcome: c.end.outcome, Next: c.nextAfter(code, hint)}
	if err != nil {
		r.Status, r.Error = report.Failed, err.Error()
	}
	return r
}

// failure reports whether err is a failure, and not only an exit code for a result.
func failure(err error) bool {
	var ended exit.Code
	var changes *exit.ChangesError
	return err != nil && !errors.As(err, &ended) && !errors.As(err, &changes)
}

func (c *Console) failed(code int, err error, hint string) {
	if c.end.again {
		code = exit.Done // another deploy follows
	}
	out := c.Writer(c.Stderr)
	ui.Failed(out, code, err, hint, exit.Name(err))
	_ = out.Flush() // there is no stream to report it on
}

// valuesIn returns the values in the arguments that may be secret: an error about the
// command line may repeat them before the redactor knows them.
func valuesIn(args []string) []string {
	var values []string
	for i, arg := range args {
		before := ""
		if i > 0 {
			before = args[i-1]
		}
		name, value, found := strings.Cut(strings.TrimPrefix(arg, "--var="), "=")
		short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(name, "v")
		if !found || !short && !strings.HasPrefix(arg, "--var=") && before != "--var" && (!strings.HasPrefix(before, "-") || !strings.HasSuffix(before, "v")) {
			continue
		}
		if short {
			_, name, _ = strings.Cut(name, "v")
		}
		if document.SecretName(name) || strings.ContainsAny(value, "{[:") { // a map may contain secrets
			values = append(values, value)
		}
	}
	return values
}
