package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"bootstrap/deployer/report"
)

// A line without an end is not held as a whole, and looks as if it were.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	r.Add("correct-horse")
	const parts, size = 40, 100_000
	part := strings.Repeat("x", size)
	line := part + "correct-horse" + strings.Repeat(part, parts-1)
	for name, end := range map[string]string{"with an end": "\nnext\n", "without an end": ""} {
		var got, want bytes.Buffer
		w := r.LogWriter(&got)
		for rest := line; rest != ""; {
			n := min(len(rest), 30_000)
			fmt.Fprint(w, rest[:n])
			rest = rest[n:]
			if len(w.held) > MaxHeld {
				t.Fatalf("%s: %d bytes are held", name, len(w.held))
			}
		}
		fmt.Fprint(w, end)
		whole := r.LogWriter(&want)
		whole.pass(line+end, 0)
		if err := w.Flush(); err != nil || got.String() != want.String() {
			t.Errorf("%s: %d bytes that end with %q, want %d that end with %q, %v", name, got.Len(), last(got.String()), want.Len(), last(want.String()), err)
		}
	}
}

func last(text string) string { return text[max(0, len(text)-60):] }

// An errand may print millions of lines.
func TestLogged(t *testing.T) {
	r := &Redactor{}
	r.Add("correct-horse")
	at := time.Date(2026, 11, 26, 1, 2, 3, 4000, time.UTC)
	for _, e := range []report.Event{
		{Kind: report.Log, Name: "stdout", Instance: "web/0", Message: "a correct-horse"},
		{Kind: report.Log, Name: "stderr", Message: "ä \x1b[1m \u202e \"quoted\" \\ \xff <b>\n\ttwo lines"},
		{Kind: report.Log, Name: "correct-horse"},
	} {
		e.Time = at
		want, err := object("", e, r.String)
		if err != nil {
			t.Fatal(err)
		}
		if got := logged(e, r.String); !bytes.Equal(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	show := JSON(r.Lines(io.Discard))
	line := report.Event{Time: at, Kind: report.Log, Name: "stdout", Instance: "web/0", Message: strings.Repeat("0123456789", 10)}
	if n := testing.AllocsPerRun(100, func() { show(line) }); n > 25 {
		t.Errorf("%v allocations for a line", n)
	}
}
