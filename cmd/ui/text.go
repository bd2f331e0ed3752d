package ui

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/internal/printable"

	"github.com/cheggaaa/pb/v3"
	"github.com/mattn/go-runewidth"
)

// Plain returns a function that writes events as lines of text, for a pipe or a file. The
// lines are those of create-env; during long stages, further lines show the progress.
func Plain(out *Writer) func(report.Event) {
	return newText(out, nil).handle
}

// newText returns an empty screen; width is nil without a terminal.
func newText(out *Writer, width func() int) *text {
	return &text{out: out, width: width, open: map[int]bool{}, warned: map[string]bool{}, logs: map[string]string{}, first: map[int]report.Event{}}
}

// Terminal returns a function like Plain, but with progress bars, and with the elapsed
// time and the last known cause in the line of a long stage. Redrawn lines are at most
// width() columns wide. The caller must call tick about every second.
func Terminal(out *Writer, width func() int) (show func(report.Event), tick func(now time.Time)) {
	t := newText(out, width)
	return t.handle, t.tick
}

// text is the state of the screen, which concurrent stages share: if another line
// interrupts an unfinished one, that is written again when it ends.
type text struct {
	mu         sync.Mutex
	out        *Writer
	width      func() int           // nil if there is no terminal
	open       map[int]bool         // numbers of open groups
	line       int                  // the stage whose line is unfinished, 0 for none
	label1     string               // the label of that stage
	since      time.Time            // the wait that was printed last
	cause      string               // the cause of its wait; may be empty
	first      map[int]report.Event // the first progress of stages
	waited     report.Event         // the last written wait
	redrawn    bool                 // the line will be redrawn: a bar, or a shortened label
	afterGroup bool                 // a group has just ended
	begun      bool                 // something was written
	lastLine   time.Time            // when a line was last written
	warned     map[string]bool
	logs       map[string]string // for each instance, the log from which the last lines were written
}

// quietFor is how long a plain output stays silent while data flows, and waitEvery is the
// limit during a wait.
const (
	quietFor  = 10 * time.Second
	waitEvery = 29 * time.Second
)

func (t *text) handle(e report.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.out.Flush()
	e.Name, e.Reason = t.line1(e.Name), t.line1(e.Reason)
	if e.Kind == report.Progress {
		t.progress(e)
		return
	}
	begun := t.begun
	t.begun, t.lastLine = true, e.Time
	if e.Kind != report.Log { // lines of logs have their own limit
		e.Message = t.out.clean(e.Message, maxMessage)
	}
	switch e.Kind {
	case report.Begin:
		t.begin(e)
	case report.End:
		t.end(e)
	case report.Info:
		t.leaveLine()
		fmt.Fprintln(t.out, t.out.sentences(e.Message, 0))
	case report.Warning:
		t.leaveLine()
		t.warned[e.Message] = true
		Warn(t.out, e.Message)
	case report.Waiting:
		t.waiting(e)
	case report.Planned:
		t.leaveLine()
		if begun {
			fmt.Fprintln(t.out)
		}
		writePlan(t.out, *e.Plan, func(w string) bool { return t.warned[t.out.clean(w, maxMessage)] })
		t.afterGroup = true
	case report.Log:
		t.leaveLine()
		t.logLines(e)
	}
}

// logLines writes the lines of a log, below its name. Those of several instances begin with
// the name of the instance.
func (t *text) logLines(e report.Event) {
	prefix := ""
	if e.Instance != "" {
		prefix = e.Instance + " | "
	}
	if e.Name != t.logs[e.Instance] {
		fmt.Fprintf(t.out, "%s==> %s <==\n", prefix, e.Name)
		t.logs[e.Instance] = e.Name
	}
	lines := t.out.redactor.String(e.Message) // text of another program
	fmt.Fprintln(t.out, prefix+strings.ReplaceAll(lines, "\n", "\n"+prefix))
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
		return // another stage uses the line; the line of this stage is written when it ends
	}
	label := t.label(e)
	fmt.Fprint(t.out, t.clip(label))
	t.line, t.redrawn = e.Stage, t.clip(label) != label
	t.label1, t.since, t.cause = label, e.Time, ""
}

// lasts is the time after which a stage's line shows the elapsed time; most stages end
// before.
const lasts = 5 * time.Second

// tick draws the unfinished line again, with the elapsed time.
func (t *text) tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	elapsed := now.Sub(t.since)
	if t.line == 0 || elapsed < lasts || now.Sub(t.lastLine) < time.Second {
		return
	}
	if _, flows := t.first[t.line]; flows && now.Sub(t.lastLine) < lasts {
		return // the bar stays until the transfer ends
	}
	defer t.out.Flush()
	rest := " " + span(elapsed)
	if t.cause != "" {
		rest += ": " + t.cause
	}
	// A long label leaves half of the line free.
	room := max(t.columns()-runewidth.StringWidth(rest), t.columns()/2)
	t.redrawn = true
	t.out.control(clearLine)
	fmt.Fprint(t.out, t.clip(runewidth.Truncate(t.label1, room, "…")+rest))
}

// waiting shows or stores the cause of a stage's wait.
func (t *text) waiting(e report.Event) {
	if t.width != nil {
		if e.Stage == t.line {
			t.cause = t.line1(e.Message)
		}
		return
	}
	if e.Stage == t.waited.Stage && e.Seconds-t.waited.Seconds < waitEvery.Seconds() {
		return
	}
	t.waited = e
	t.leaveLine()
	fmt.Fprintf(t.out, "  after %s: %s\n", span(time.Duration(e.Seconds*float64(time.Second))), e.Message)
}

func (t *text) end(e report.Event) {
	delete(t.first, e.Stage)
	result := endings[e.Status]
	if e.Status == report.Skipped {
		result.word += " [" + e.Reason + "]"
	}
	took := " (" + duration(e.Seconds) + ")"
	if e.Group {
		t.leaveLine()
		delete(t.open, e.Stage)
		t.afterGroup = true
		t.out.paint(result.style, result.word)
		fmt.Fprintln(t.out, " "+e.Name+took)
		return
	}
	label := t.label(e) + " "
	whole := label + result.word + took
	fits := t.width == nil || runewidth.StringWidth(whole) <= t.columns()
	switch {
	case t.line == e.Stage && !t.redrawn && fits:
		label = " "
	case t.line == e.Stage && t.width != nil:
		t.out.control(clearLine)
	default:
		t.leaveLine()
	}
	if !fits {
		label, took = t.fold(whole), ""
		if i := strings.LastIndex(label, result.word); i >= 0 {
			label, took = label[:i], label[i+len(result.word):]
		} else { // the word is broken
			result.word = ""
		}
	}
	fmt.Fprint(t.out, label)
	t.out.paint(result.style, result.word)
	fmt.Fprintln(t.out, took)
	t.line, t.redrawn = 0, false
}

// endings are the texts at the ends of stages' lines.
var endings = map[report.Status]struct {
	word  string
	style style
}{
	report.Finished: {"Finished", green},
	report.Skipped:  {"Skipped", faint},
	report.Failed:   {"Failed", alarm},
	report.Stopped:  {"Interrupted", yellow},
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

func (t *text) columns() int { return columns(t.width) }

// columns returns the largest width of a line. The last column stays free, because some
// terminals start a new row when it is written.
func columns(terminal func() int) int {
	width := terminal()
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

// fold breaks a line that is wider than the terminal, between words or inside of words
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
	e.Total, e.Done = max(e.Total, 0), max(e.Done, 0)
	if e.Total > 0 {
		e.Done = min(e.Done, e.Total) // a bar has no room for more
	}
	if _, ok := t.first[e.Stage]; !ok {
		t.first[e.Stage] = e
	}
	if t.width == nil {
		if e.Time.Sub(t.lastLine) < quietFor {
			return
		}
		t.lastLine = e.Time
		t.leaveLine()
		fmt.Fprintln(t.out, t.label(e)+" "+amount(e)+t.pace(e, ", "))
		return
	}
	if e.Time.Sub(t.lastLine) < 100*time.Millisecond && e.Done != e.Total {
		return
	}
	t.lastLine = e.Time
	if t.line != e.Stage {
		t.leaveLine()
		t.line, t.label1, t.since, t.cause = e.Stage, t.label(e), t.first[e.Stage].Time, ""
	}
	t.redrawn = true
	t.out.control(clearLine)
	fmt.Fprint(t.out, t.draw(e))
}

// draw renders the line of a stage with a bar; if there is no space for a bar, with the
// amount. A label that leaves no space is shortened.
func (t *text) draw(e report.Event) string {
	label, pace := t.label(e), t.pace(e, " ")
	room := t.columns() - runewidth.StringWidth(label) - 1
	short := false
	switch rest := room - runewidth.StringWidth(pace); {
	case pace == "" || rest < 20:
		pace = ""
	case rest < 45:
		room, short = rest, true
	default:
		room = rest
	}
	if room < 20 || e.Total <= 0 {
		how := amount(e)
		if space := t.columns() - runewidth.StringWidth(how) - 1; space >= 10 {
			return runewidth.Truncate(label, space, "…") + " " + how
		}
		return t.clip(label)
	}
	bar := drawBar(e, room, !short)
	if runewidth.StringWidth(bar) > room {
		bar = drawBar(e, room, false) // the amounts alone are wider
	}
	return label + " " + bar + pace
}

// barTemplates are those of pb: a bar with the amounts, or without.
const (
	bareBar    pb.ProgressBarTemplate = `{{bar . "[" "#" "#" " " "]"}} {{percent . "%6.02f%%"}}`
	countedBar pb.ProgressBarTemplate = `{{counters . "%s / %s"}} ` + bareBar
)

// drawBar renders a bar, with the amounts if counters is true.
func drawBar(e report.Event, width int, counters bool) string {
	template := bareBar
	if counters {
		template = countedBar
	}
	bar := pb.New64(e.Total).SetTemplate(template).Set(pb.Bytes, true).SetWidth(width).SetCurrent(e.Done)
	return strings.TrimSpace(bar.String())
}

// pace returns the speed of the transfer, and the time for the rest; empty in the first
// second.
func (t *text) pace(e report.Event, before string) string {
	first := t.first[e.Stage]
	took, done := e.Time.Sub(first.Time).Seconds(), e.Done-first.Done
	if took < 1 || done <= 0 {
		return ""
	}
	text := fmt.Sprintf("%s%s/s", before, Size(int64(float64(done)/took)))
	if e.Total > e.Done {
		left := time.Duration(float64(e.Total-e.Done) / float64(done) * took * float64(time.Second))
		text += ", " + span(max(left, time.Second).Round(time.Second)) + " left"
	}
	return text
}

// Failed prints the error and what to do. hint and explain, the NAME of bootstrap
// explain, may be empty; if code is 0, the program continues.
func Failed(out *Writer, code int, err error, hint, explain string) {
	fmt.Fprintln(out)
	out.paint(alarm, "Error:")
	fmt.Fprintf(out, " %s\n", out.sentences(out.clean(err.Error(), maxMessage), len("Error: ")))
	if hint != "" {
		out.paint(cyan, "Hint:")
		fmt.Fprintf(out, " %s\n", out.sentences(out.clean(hint, maxMessage), len("Hint: ")))
	}
	if explain != "" {
		out.paint(cyan, "Explain:")
		fmt.Fprintf(out, " bootstrap explain %s\n", explain)
	}
	if code != 0 {
		fmt.Fprintf(out, "\nExit code %d\n", code)
	}
}

// Say prints a message in lines that fit the terminal.
func Say(out *Writer, text string) {
	fmt.Fprintln(out, out.sentences(out.clean(strings.TrimSuffix(text, "\n"), maxMessage), 0))
}

// Warn prints a warning.
func Warn(out *Writer, text string) {
	const head = "Warning: "
	out.paint(yellow, head)
	fmt.Fprintln(out, out.sentences(out.clean(text, maxMessage), len(head)))
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
func Visible(text string) string { return printable.Escaped(text) }
