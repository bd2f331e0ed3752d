package ui

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"bootstrap/internal/printable"
)

// These limits apply to all output. Replies of other programs are limited where
// they are read.
const (
	maxLine    = 16 << 10 // for a line
	maxMessage = 64 << 10 // for a message or an error
	maxCell    = 512      // for a table's cell
	maxLogged  = 1 << 20  // for a line of a log file
	// MaxHeld is how much of a line is held until it ends. It is more than is shown, so that
	// secrets at the end of the shown part are found.
	MaxHeld = maxLogged + 256<<10
)

// Writer writes text to a stream or a log file. It writes complete lines, without
// secrets, with control characters escaped, and shortens long lines.
type Writer struct {
	mu       sync.Mutex
	redactor *Redactor
	to       io.Writer
	longest  int // length of a line
	coloured bool
	width    func() int // width of the terminal; nil: there is none
	held     []byte
	omitted  int // bytes of the last line that are not in held
	err      error
}

// Writer returns a writer to a stream; Flush writes an unfinished line.
func (r *Redactor) Writer(to io.Writer) *Writer {
	return &Writer{redactor: r, to: to, longest: maxLine}
}

// LogWriter returns a writer for a log file, in which lines may be longer.
func (r *Redactor) LogWriter(to io.Writer) *Writer {
	return &Writer{redactor: r, to: to, longest: maxLogged}
}

// Long lets lines be as long as those of log files, and returns the writer: it gets the output
// of programs on VMs.
func (w *Writer) Long() *Writer {
	w.longest = maxLogged
	return w
}

// Within makes tables and lists fit a terminal of width() columns, and returns the
// writer.
func (w *Writer) Within(width func() int) *Writer {
	w.width = width
	return w
}

// room returns the largest width of lines, 0 for any width. The last column stays free,
// because some terminals start a new row when it is written.
func (w *Writer) room() int {
	if w.width == nil {
		return 0
	}
	return columns(w.width)
}

// indent returns the column at which further lines of a text begin, if its first line
// begins at the given column: there, or further to the left on a narrow terminal.
func (w *Writer) indent(begins int) int {
	if room := w.room(); room > 0 && room-begins < 20 {
		return 4
	}
	return begins
}

// broken breaks a text that begins at a column between words, so that it fits the
// terminal. A long word, which may be a path or a CID, is not broken.
func (w *Writer) broken(text string, begins int) string {
	room, used := w.room(), begins
	if room == 0 || begins+runewidth.StringWidth(text) <= room {
		return text
	}
	indent := w.indent(begins)
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		width := runewidth.StringWidth(word)
		switch {
		case i > 0 && used+1+width > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		case i > 0:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += width
	}
	return b.String()
}

// command matches a command in a message. It stays on one line, so that it can be copied.
var command = regexp.MustCompile("[`\"]bootstrap [^`\"]*[`\"]\\S*|: bootstrap [a-z].*$")

// sentences breaks the lines of a message between words, so that they fit the terminal.
// The first line begins at a column. Lines with aligned parts are not changed.
func (w *Writer) sentences(text string, begins int) string {
	room := w.room()
	if room == 0 {
		return text
	}
	const kept = "\x00" // a space of a command
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		whole := strings.TrimLeft(line, " ")
		indent := len(line) - len(whole)
		if i == 0 {
			indent += begins
		}
		if indent+runewidth.StringWidth(whole) <= room || strings.Contains(whole, "  ") || strings.Contains(whole, "\t") {
			continue
		}
		whole = command.ReplaceAllStringFunc(whole, func(c string) string {
			head := c[:1+strings.Count(c[1:2], " ")]
			return head + strings.ReplaceAll(c[len(head):], " ", kept)
		})
		broken := strings.ReplaceAll(w.broken(whole, indent), kept, " ")
		lines[i] = line[:len(line)-len(strings.TrimLeft(line, " "))] + broken
	}
	return strings.Join(lines, "\n")
}

// Write accepts p and writes the complete lines. It never fails: Err returns the
// error of the stream.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := len(p)
	if w.omitted > 0 {
		rest, after, ended := bytes.Cut(p, []byte("\n"))
		w.omitted += len(rest)
		if !ended {
			return size, nil
		}
		w.flush()
		w.send("\n")
		p = after
	}
	begun := len(w.held)
	w.held = append(w.held, p...)
	i := bytes.LastIndexByte(p, '\n') // Lines that are held already stay so without a new end.
	if i < 0 {
		if w.omitted = max(len(w.held)-MaxHeld, 0); w.omitted > 0 {
			w.held = w.held[:MaxHeld]
		}
		return size, nil
	}
	i += begun
	lines := w.held[:i+1]
	// A private key is held back until its end, so that it can be recognized. A key
	// without an end is redacted up to the end of the text.
	if b := bytes.LastIndex(lines, []byte("-----BEGIN ")); b >= 0 && !bytes.Contains(lines[b:], []byte("-----END ")) && len(lines) < 64<<10 {
		return size, nil
	}
	w.pass(string(lines), 0)
	w.held = append(w.held[:0], w.held[i+1:]...)
	return size, nil
}

// Flush writes an unfinished line.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if len(w.held) > 0 {
		w.pass(string(w.held), w.omitted)
		w.held, w.omitted = w.held[:0], 0
	}
}

// Err returns the first error of the stream.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// pass writes lines; the last one has so many more bytes.
func (w *Writer) pass(text string, more int) {
	text = printable.Escaped(w.redactor.Shown(text))
	if len(text) > w.longest || more > 0 {
		var b strings.Builder
		for line := range strings.Lines(text) {
			whole, ended := strings.CutSuffix(line, "\n")
			if ended {
				b.WriteString(bounded(whole, w.longest) + "\n")
				continue
			}
			b.WriteString(boundedWith(whole, w.longest, more))
		}
		text = b.String()
	}
	w.send(text)
}

func (w *Writer) send(text string) {
	if _, err := io.WriteString(w.to, text); err != nil && w.err == nil {
		w.err = err
	}
}

// control writes control sequences for the terminal, which only this program may use.
func (w *Writer) control(sequence string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.send(sequence)
}

// clean makes a text safe to print. It redacts before it shortens, so that no secret is
// split.
func (w *Writer) clean(text string, limit int) string {
	return bounded(printable.Escaped(w.redactor.Shown(text)), limit)
}

// bounded returns at most limit bytes of text, with the number of omitted bytes.
func bounded(text string, limit int) string { return boundedWith(text, limit, 0) }

// boundedWith is bounded for a text that has more bytes, which are omitted in any case.
func boundedWith(text string, limit, more int) string {
	if len(text) <= limit && more == 0 {
		return text
	}
	end := min(limit, len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d more bytes)", text[:end], len(text)-end+more)
}
