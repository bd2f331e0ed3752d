package ui

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/cheggaaa/pb/v3"

	"bootstrap/deployer"
)

// Plain returns a renderer of events as lines of text, for a pipe or a file.
// The lines are the ones users know from create-env; while something long
// runs, a line now and then tells how far it is.
func Plain(out *Writer) func(deployer.Event) {
	t := &text{out: out, open: map[int]bool{}, warned: map[string]bool{}}
	return t.handle
}

// Terminal returns a renderer like Plain's that draws bars, at most width()
// columns wide.
func Terminal(out *Writer, width func() int) func(deployer.Event) {
	t := &text{out: out, open: map[int]bool{}, warned: map[string]bool{}, width: width}
	return t.handle
}

// text keeps what stands on the screen. Stages that run side by side share
// it: a line that another one interrupts is written again, whole, at its end.
type text struct {
	out        *Writer
	width      func() int   // nil where there is no terminal
	open       map[int]bool // groups that are open
	line       int          // the stage whose line is unfinished, 0 for none
	barred     bool         // a bar stands on the line
	afterGroup bool         // a group has just ended
	told       time.Time    // when a line was last written
	warned     map[string]bool
	log        string // the log whose lines were written last
}

// quietFor is how long a plain output stays silent while bytes flow.
const quietFor = 10 * time.Second

func (t *text) handle(e deployer.Event) {
	defer t.out.Flush()
	if e.Kind == deployer.Progress {
		t.progress(e)
		return
	}
	t.told = e.Time
	if e.Kind != deployer.Log { // a job's own lines stay what they are
		e.Name, e.Message, e.Reason = visible(e.Name), visible(e.Message), visible(e.Reason)
	}
	switch e.Kind {
	case deployer.Begin:
		t.begin(e)
	case deployer.End:
		t.end(e)
	case deployer.Info:
		t.leaveLine()
		fmt.Fprintln(t.out, e.Message)
	case deployer.Warning:
		t.leaveLine()
		t.warned[e.Message] = true
		fmt.Fprintln(t.out, "Warning: "+e.Message)
	case deployer.Planned:
		t.leaveLine()
		writePlan(t.out, *e.Plan, func(w string) bool { return t.warned[w] })
		t.afterGroup = true
	case deployer.Log:
		t.leaveLine()
		if e.Name != t.log {
			fmt.Fprintf(t.out, "==> %s <==\n", e.Name)
			t.log = e.Name
		}
		fmt.Fprintln(t.out, e.Message)
	}
}

func (t *text) begin(e deployer.Event) {
	if e.Group {
		t.leaveLine()
		t.open[e.Stage] = true
		t.afterGroup = false
		fmt.Fprintf(t.out, "\nStarted %s\n", e.Name)
		return
	}
	if t.afterGroup {
		fmt.Fprintln(t.out)
		t.afterGroup = false
	}
	if t.line != 0 {
		return // it runs beside the one on the line, and is written when it ends
	}
	fmt.Fprint(t.out, t.label(e))
	t.line = e.Stage
}

func (t *text) end(e deployer.Event) {
	result := map[deployer.Status]string{deployer.Finished: "Finished", deployer.Failed: "Failed", deployer.Stopped: "Interrupted"}[e.Status]
	if e.Status == deployer.Skipped {
		result = "Skipped [" + e.Reason + "]"
	}
	took := duration(e.Seconds)
	if e.Group {
		t.leaveLine()
		delete(t.open, e.Stage)
		t.afterGroup = true
		fmt.Fprintf(t.out, "%s %s (%s)\n", result, e.Name, took)
		return
	}
	switch {
	case t.line == e.Stage && t.barred:
		fmt.Fprintf(t.out, "\r\x1b[K%s", t.label(e))
	case t.line != e.Stage:
		t.leaveLine()
		fmt.Fprint(t.out, t.label(e))
	}
	fmt.Fprintf(t.out, " %s (%s)\n", result, took)
	t.line, t.barred = 0, false
}

// label is how the line of a stage begins.
func (t *text) label(e deployer.Event) string {
	indent := ""
	if t.open[e.Parent] {
		indent = "  "
	}
	return indent + e.Name + "..."
}

// leaveLine ends an unfinished line, so that something else can be written.
func (t *text) leaveLine() {
	if t.line == 0 {
		return
	}
	if t.barred {
		fmt.Fprint(t.out, "\r\x1b[K")
	} else {
		fmt.Fprintln(t.out)
	}
	t.line, t.barred = 0, false
}

func (t *text) progress(e deployer.Event) {
	if t.width == nil {
		if e.Time.Sub(t.told) < quietFor {
			return
		}
		t.told = e.Time
		t.leaveLine()
		fmt.Fprintln(t.out, t.label(e)+" "+amount(e))
		return
	}
	if e.Time.Sub(t.told) < 100*time.Millisecond && e.Done != e.Total {
		return
	}
	t.told = e.Time
	if t.line != e.Stage {
		t.leaveLine()
		t.line = e.Stage
	}
	t.barred = true
	fmt.Fprintf(t.out, "\r\x1b[K%s %s", t.label(e), t.draw(e))
}

// draw renders a bar that fits behind the label.
func (t *text) draw(e deployer.Event) string {
	room := t.width() - len(t.label(e)) - 2
	if room < 20 || e.Total <= 0 {
		return amount(e)
	}
	bar := pb.ProgressBarTemplate(`{{ bar . "[" "#" "#" " " "]" }} {{ percent . }} {{ counters . }}`).New(0)
	bar.Set(pb.Static, true).Set(pb.Bytes, true).Set(pb.Terminal, true)
	bar.SetWriter(io.Discard).SetWidth(room).SetTotal(e.Total).SetCurrent(e.Done)
	return strings.TrimRight(bar.String(), " ")
}

func amount(e deployer.Event) string {
	if e.Total <= 0 {
		return Size(e.Done)
	}
	return fmt.Sprintf("%d%% (%s of %s)", e.Done*100/e.Total, Size(e.Done), Size(e.Total))
}

// Size writes a number of bytes for people: 1.5 MiB.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, "KiB"
	for _, s := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, suffix = value/unit, s
	}
	return fmt.Sprintf("%.1f %s", value, suffix)
}

// duration is HH:MM:SS, full seconds only.
func duration(seconds float64) string {
	s := int(seconds)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Succeeded tells that all went well.
func Succeeded(out io.Writer) { fmt.Fprint(out, "\nSucceeded\n") }

// visible shows control characters as \x1b: what a CPI, an agent or a file says
// must not move the cursor or recolour the terminal.
func visible(text string) string {
	hidden := func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, c := range strings.ReplaceAll(text, "\r\n", "\n") {
		if hidden(c) {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Failed tells what went wrong and what can be done about it.
func Failed(out io.Writer, code int, err error, hint string) {
	fmt.Fprintf(out, "\nError: %s\n", visible(err.Error()))
	if hint != "" {
		fmt.Fprintf(out, "Hint: %s\n", hint)
	}
	fmt.Fprintf(out, "\nExit code %d\n", code)
}

// File prints a file below a line with its name.
func File(out io.Writer, path, content string) {
	fmt.Fprintf(out, "==> %s <==\n%s", path, content)
	if !strings.HasSuffix(content, "\n") {
		fmt.Fprintln(out)
	}
}
