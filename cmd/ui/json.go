package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/internal/printable"
)

// Format is the format of JSON output. Keys and kinds may be added to a format; removing
// one, or changing its meaning, needs a new format.
const Format = 1

// Lines writes JSON objects to a stream for programs, one per line, each with a kind. It
// redacts and shortens values like text, but not keys and words that this program chooses
// itself.
type Lines struct {
	mu       sync.Mutex
	redactor *Redactor
	to       io.Writer
	err      error
}

// Lines returns a writer of JSON objects to a stream.
func (r *Redactor) Lines(to io.Writer) *Lines { return &Lines{redactor: r, to: to} }

// Print writes one object, and adds kind unless value has one.
func (l *Lines) Print(kind string, value any) {
	l.print(kind, value, func(text string) string { return bounded(l.redactor.Shown(text), maxMessage) })
}

// PrintAll writes the objects of a list.
func PrintAll[T any](out *Lines, kind string, list []T) {
	for _, value := range list {
		out.Print(kind, value)
	}
}

// Product writes the requested result of a command, complete and unchanged.
func (l *Lines) Product(kind string, value any) {
	l.print(kind, value, func(text string) string { return text })
}

func (l *Lines) print(kind string, value any, text func(string) string) {
	l.write(object(kind, value, text))
}

// write writes an object, unless there was an error when it was made.
func (l *Lines) write(line []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = err
	}
}

// Err returns the first error of the stream.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// JSON returns a renderer of events as JSON, one object per line.
func JSON(out *Lines) func(report.Event) {
	return func(e report.Event) {
		e.Time = e.Time.UTC()
		if e.Kind == report.Log {
			out.write(logged(e, out.redactor.String), nil)
			return
		}
		out.Print("", e)
	}
}

// logged returns an event of the kind log as object does, but much faster, because there
// may be millions of lines. They contain no public names.
func logged(e report.Event, text func(string) string) []byte {
	var w rewriter
	w.out.Grow(len(e.Message) + 128)
	w.out.WriteString(`{"time":`)
	w.string(e.Time.Format(time.RFC3339Nano))
	w.out.WriteString(`,"kind":`)
	w.string(string(e.Kind))
	member := func(key, value string) {
		if value != "" {
			w.out.WriteString(`,"` + key + `":`)
			w.string(strings.ToValidUTF8(value, "\ufffd"))
		}
	}
	member("name", text(e.Name))
	member("instance", text(e.Instance))
	message := text(e.Message)
	if e.More > 0 {
		message = boundedWith(message, maxLogged, e.More)
	}
	member("message", message)
	w.out.WriteByte('}')
	return w.out.Bytes()
}

// Result is the last line of the JSON output.
type Result struct {
	Kind     string         `json:"kind"` // "result"
	Status   report.Status  `json:"status"`
	ExitCode int            `json:"exit_code"`
	Error    string         `json:"error,omitempty"`
	Hint     string         `json:"hint,omitempty"`
	Explain  string         `json:"explain,omitempty"` // the NAME of bootstrap explain
	Next     []string       `json:"next,omitempty"`    // commands to run next
	HeldBy   *report.Holder `json:"held_by,omitempty"` // holder of the refused address
	*report.Outcome
}

// JSONResult prints the end of a run.
func JSONResult(out *Lines, r Result) {
	r.Kind = "result"
	out.Print("", r)
}

// object returns value as a JSON object on one line, with a kind; text changes its texts.
func object(kind string, value any, text func(string) string) ([]byte, error) {
	data, err := marshal(value)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("cannot print %T as a JSON object", value)
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	w := rewriter{text: text}
	if err := w.value(tokens, "", kind); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// rewriter copies JSON and changes the texts in it; times are converted to UTC.
type rewriter struct {
	out  bytes.Buffer
	text func(string) string
}

// value copies the next value, which belongs to key, and adds a kind before the members
// of the outermost object.
func (w *rewriter) value(tokens *json.Decoder, key, kind string) error {
	token, err := tokens.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case string:
		if moment, ok := timeIn(t); ok {
			t = moment.UTC().Format(time.RFC3339Nano)
		} else if !ours(key) {
			t = w.text(t)
		}
		w.string(t)
		return nil
	case json.Delim:
		return w.members(tokens, t, key, kind)
	}
	data, err := marshal(token) // a number, true, false or null
	w.out.Write(data)
	return err
}

// timeIn parses a time. Most texts are not times, which is found out quickly.
func timeIn(text string) (time.Time, bool) {
	if len(text) < len("2006-01-02T15:04:05Z") || text[10] != 'T' {
		return time.Time{}, false
	}
	moment, err := time.Parse(time.RFC3339Nano, text)
	return moment, err == nil
}

func (w *rewriter) members(tokens *json.Decoder, open json.Delim, key, kind string) error {
	w.out.WriteString(open.String())
	first, name := true, key
	if kind != "" {
		w.out.WriteString(`"kind":`)
		w.string(kind)
		first = false
	}
	for tokens.More() {
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		if open == '{' {
			token, err := tokens.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string)
			w.string(name)
			w.out.WriteByte(':')
		}
		if err := w.value(tokens, name, ""); err != nil {
			return err
		}
	}
	end, err := tokens.Token()
	if err != nil {
		return err
	}
	w.out.WriteString(end.(json.Delim).String())
	return nil
}

// ours reports whether this program chooses the value of the key. Such values are not
// redacted: programs compare them, and a password may be the same word.
func ours(key string) bool {
	switch key {
	case "kind", "status", "use", "result", "action", "change", "explain":
		return true
	}
	return false
}

// isSpecial reports whether a character may have another form in a JSON string.
func isSpecial(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }

// string writes a JSON string. It escapes all characters that control a terminal,
// even those that JSON allows.
func (w *rewriter) string(text string) {
	if !strings.ContainsFunc(text, isSpecial) {
		w.out.WriteByte('"')
		w.out.WriteString(text)
		w.out.WriteByte('"')
		return
	}
	data, err := marshal(text)
	if err != nil { // impossible for a text
		return
	}
	w.out.Write(printable.JSON(data))
}
