package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"bootstrap/deployer/report"

	"github.com/cheggaaa/pb/v3"
	"github.com/mattn/go-runewidth"
)

// Plain returns a renderer that writes events as lines of text, for a pipe or a
// file. The lines are those of create-env; during long stages, further lines
// show the progress.
func Plain(out *Writer) func(report.Event) {
	t := &text{out: out, open: map[int]bool{}, warned: map[string]bool{}}
	return t.handle
}

// Terminal returns a renderer like Plain, but with progress bars that are at
// most width() columns wide.
func Terminal(out *Writer, width func() int) func(report.Event) {
	t := &text{out: out, open: map[int]bool{}, warned: map[string]bool{}, width: width}
	return t.handle
}

// text is the state of the screen, which concurrent stages share: if another
// line interrupts an unfinished one, the latter is written again as a whole when
// it ends.
type text struct {
	out        *Writer
	width      func() int   // nil if there is no terminal
	open       map[int]bool // groups that are open
	line       int          // the stage whose line is unfinished, 0 for none
	redrawn    bool         // the line will be redrawn: a bar, or a shortened label
	afterGroup bool         // a group has just ended
	begun      bool         // something was written
	told       time.Time    // when a line was last written
	warned     map[string]bool
	log        string // the log whose lines were written last
}

// quietFor is how long a plain output stays silent while bytes flow.
const quietFor = 10 * time.Second

func (t *text) handle(e report.Event) {
	defer t.out.Flush()
	e.Name, e.Reason = t.line1(e.Name), t.line1(e.Reason)
	if e.Kind == report.Progress {
		t.progress(e)
		return
	}
	begun := t.begun
	t.begun, t.told = true, e.Time
	if e.Kind != report.Log { // its lines have their own limit
		e.Message = t.out.clean(e.Message, maxMessage)
	}
	switch e.Kind {
	case report.Begin:
		t.begin(e)
	case report.End:
		t.end(e)
	case report.Info:
		t.leaveLine()
		fmt.Fprintln(t.out, e.Message)
	case report.Warning:
		t.leaveLine()
		t.warned[e.Message] = true
		fmt.Fprintln(t.out, "Warning: "+e.Message)
	case report.Planned:
		t.leaveLine()
		if begun {
			fmt.Fprintln(t.out)
		}
		writePlan(t.out, *e.Plan, func(w string) bool { return t.warned[t.out.clean(w, maxMessage)] })
		t.afterGroup = true
	case report.Log:
		t.leaveLine()
		if e.Name != t.log {
			fmt.Fprintf(t.out, "==> %s <==\n", e.Name)
			t.log = e.Name
		}
		fmt.Fprintln(t.out, t.out.redactor.String(e.Message)) // text of another program
	}
}

func (t *text) begin(e report.Event) {
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
		return // another stage uses the line; this one is written when it ends
	}
	label := t.label(e)
	fmt.Fprint(t.out, t.clip(label))
	t.line, t.redrawn = e.Stage, t.clip(label) != label
}

func (t *text) end(e report.Event) {
	result := map[report.Status]string{report.Finished: "Finished", report.Failed: "Failed", report.Stopped: "Interrupted"}[e.Status]
	if e.Status == report.Skipped {
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
	result = fmt.Sprintf(" %s (%s)", result, took)
	whole := t.label(e) + result
	fits := t.width == nil || runewidth.StringWidth(whole) <= t.columns()
	switch {
	case t.line == e.Stage && !t.redrawn && fits:
		fmt.Fprintln(t.out, result)
	case t.line == e.Stage && t.width != nil:
		t.out.control(clearLine)
		fmt.Fprintln(t.out, t.fold(whole))
	default:
		t.leaveLine()
		fmt.Fprintln(t.out, t.fold(whole))
	}
	t.line, t.redrawn = 0, false
}

// label returns the beginning of the line of a stage.
func (t *text) label(e report.Event) string {
	indent := ""
	if t.open[e.Parent] {
		indent = "  "
	}
	return indent + e.Name + "..."
}

// line1 returns a name or a reason as one line.
func (t *text) line1(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(t.out.clean(s, maxCell))
}

// clearLine goes to the beginning of the line and clears it. It clears only one row, so
// a line that is redrawn must not be wider than the terminal.
const clearLine = "\r\x1b[K"

// columns returns how wide a line may be; the last column stays free, because some
// terminals start a new row when it is written.
func (t *text) columns() int {
	width := t.width()
	if width <= 0 {
		width = 80
	}
	return max(width, 10) - 1
}

// clip shortens a line that will be redrawn to the width of the terminal.
func (t *text) clip(line string) string {
	if t.width == nil {
		return line
	}
	return runewidth.Truncate(line, t.columns(), "…")
}

// fold breaks a line that is wider than the terminal, between words or within words
// that are too long.
func (t *text) fold(line string) string {
	if t.width == nil || runewidth.StringWidth(line) <= t.columns() {
		return line
	}
	const indent = "    "
	text := strings.TrimLeft(line, " ")
	row := line[:len(line)-len(text)]
	var rows []string
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && runewidth.StringWidth(row+" "+word) > t.columns() {
			rows, row, empty = append(rows, row), indent, true
		}
		if !empty {
			row += " "
		}
		row, empty = row+word, false
		for runewidth.StringWidth(row) > t.columns() {
			head := runewidth.Truncate(row, t.columns(), "")
			rows, row = append(rows, head), indent+row[len(head):]
		}
	}
	return strings.Join(append(rows, row), "\n")
}

// leaveLine ends an unfinished line, so that other text can follow.
func (t *text) leaveLine() {
	if t.line == 0 {
		return
	}
	if t.redrawn {
		t.out.control(clearLine)
	} else {
		fmt.Fprintln(t.out)
	}
	t.line, t.redrawn = 0, false
}

func (t *text) progress(e report.Event) {
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
	t.redrawn = true
	t.out.control(clearLine)
	fmt.Fprint(t.out, t.draw(e))
}

// draw renders the line of a stage with a bar, or with the amount if there is no room
// for a bar; a label that leaves no room is shortened.
func (t *text) draw(e report.Event) string {
	label := t.label(e)
	room := t.columns() - runewidth.StringWidth(label) - 1
	if room < 20 || e.Total <= 0 {
		how := amount(e)
		if space := t.columns() - runewidth.StringWidth(how) - 1; space >= 10 {
			return runewidth.Truncate(label, space, "…") + " " + how
		}
		return t.clip(label)
	}
	bar := pb.ProgressBarTemplate(`{{ bar . "[" "#" "#" " " "]" }} {{ percent . }} {{ counters . }}`).New(0)
	bar.Set(pb.Static, true).Set(pb.Bytes, true).Set(pb.Terminal, true)
	bar.SetWriter(io.Discard).SetWidth(room).SetTotal(e.Total).SetCurrent(e.Done)
	return label + " " + strings.TrimRight(bar.String(), " ")
}

func amount(e report.Event) string {
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

// duration returns a duration as HH:MM:SS.
func duration(seconds float64) string {
	s := int(seconds)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Succeeded prints that the command has succeeded.
func Succeeded(out io.Writer) { fmt.Fprint(out, "\nSucceeded\n") }

// Failed prints what went wrong and what to do about it.
func Failed(out *Writer, code int, err error, hint string) {
	fmt.Fprintf(out, "\nError: %s\n", out.clean(err.Error(), maxMessage))
	if hint != "" {
		fmt.Fprintf(out, "Hint: %s\n", hint)
	}
	fmt.Fprintf(out, "\nExit code %d\n", code)
}

// File returns the content of a file after a line with its name.
func File(path, content string) string {
	if !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	return fmt.Sprintf("==> %s <==\n%s", path, content)
}

// Visible escapes the control characters of a text, for requested results that are
// printed on a terminal.
func Visible(text string) string { return visible(text) }
